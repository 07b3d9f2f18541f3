// `node tools/image-files.ts BASE FOLDER`: copies Node, its libraries and licences from a base image into a folder.
import { globSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

/** The parsed part of an ELF file: 64 bits, little endian, as for amd64 and arm64. */
export interface Elf {
  /** As in elf.h: 62 is amd64, 183 arm64. */
  machine: number
  /** The loader that its INTERP names. */
  loader: string | undefined
  /** File names of the libraries that it loads. */
  libraries: string[]
  /** End of the loaded part. After it come symbols for debuggers, and the section table. */
  loadedEnd: number
}

const segmentTypes = { load: 1, dynamic: 2, loader: 3 }
const dynamicTags = { needed: 1, texts: 5 }

/** @see https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html */
export function readElf(file: Buffer): Elf {
  const number = (at: number): number => Number(file.readBigUInt64LE(at))
  const text = (at: number): string => file.toString('latin1', at, file.indexOf(0, at))
  if (file.toString('latin1', 0, 6) !== '\u007fELF\u0002\u0001')
    throw new Error('no ELF file of 64 bits, little endian')
  const [first, size, count] = [number(32), file.readUInt16LE(54), file.readUInt16LE(56)]
  const segments = Array.from({ length: count }, (_, index) => {
    const at = first + index * size
    return { type: file.readUInt32LE(at), offset: number(at + 8), address: number(at + 16), length: number(at + 32) }
  })
  const ofType = (type: number): typeof segments => segments.filter((segment) => segment.type === type)
  const dynamic = ofType(segmentTypes.dynamic).flatMap(({ length, offset }) =>
    Array.from({ length: length / 16 }, (_, index) => ({
      tag: number(offset + index * 16),
      value: number(offset + index * 16 + 8),
    })),
  )
  const textsAddress = dynamic.find(({ tag }) => tag === dynamicTags.texts)?.value ?? 0
  const holder = ofType(segmentTypes.load).find(
    ({ address, length }) => textsAddress >= address && textsAddress < address + length,
  )
  const texts = textsAddress - (holder?.address ?? 0) + (holder?.offset ?? 0)
  return {
    machine: file.readUInt16LE(18),
    loader: ofType(segmentTypes.loader).map(({ offset }) => text(offset))[0],
    libraries: dynamic.filter(({ tag }) => tag === dynamicTags.needed).map(({ value }) => text(texts + value)),
    loadedEnd: Math.max(...segments.map(({ length, offset }) => offset + length)),
  }
}

/** Truncates an ELF file after its loaded part, as `strip` does, for any architecture. */
export function stripped(file: Buffer): Buffer {
  const copy = Buffer.from(file.subarray(0, readElf(file).loadedEnd))
  // The offset of the section table, the number of sections, and the index of that with the names.
  copy.writeBigUInt64LE(0n, 40)
  copy.writeUInt32LE(0, 60)
  return copy
}

/** Debian packages of the copied files: for their licences, and their entries in the list that scanners read. */
const packages = ['libc6', 'libgcc-s1', 'libstdc++6', 'libatomic1']

/** @throws Error if the base lacks a file */
export function copyImageFiles(base: string, folder: string): void {
  const put = (path: string, content: Buffer | string, mode = 0o644): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content, { mode })
  }
  const node = readFileSync(join(base, 'usr/local/bin/node'))
  put('usr/local/bin/node', stripped(node), 0o755)

  const { loader = '', machine } = readElf(node)
  const found = new Map<string, Buffer>()
  const find = (name: string): Buffer => {
    const candidates = globSync([`usr/lib/*-linux-gnu/${name}`, `lib/*-linux-gnu/${name}`], { cwd: base })
    const [path] = candidates
    if (path === undefined) throw new Error(`${base}: ${name} is not there, which Node loads`)
    const content = readFileSync(join(base, path))
    if (readElf(content).machine !== machine) throw new Error(`${path}: of another architecture than Node`)
    return content
  }
  const collect = (libraries: readonly string[]): void => {
    for (const name of libraries) {
      if (found.has(name) || name === basename(loader)) continue
      const content = find(name)
      found.set(name, content)
      collect(readElf(content).libraries)
    }
  }
  collect(readElf(node).libraries)
  put(loader, find(basename(loader)), 0o755)
  const [triplet = ''] = globSync('usr/lib/*-linux-gnu', { cwd: base })
  for (const [name, content] of found) put(join('lib', basename(triplet), name), content)

  for (const path of [
    'usr/local/LICENSE',
    'etc/os-release',
    ...packages.map((name) => `usr/share/doc/${name}/copyright`),
  ])
    put(path, readFileSync(realpathSync(join(base, path))))
  const entries = readFileSync(join(base, 'var/lib/dpkg/status'), 'utf8').split(/\n\n+/)
  const status = packages.map((name) => {
    const entry = entries.find((text) => text.startsWith(`Package: ${name}\n`))
    if (entry === undefined) throw new Error(`${base}: ${name} is not installed`)
    return `${entry.trimEnd()}\n\n`
  })
  put('var/lib/dpkg/status', status.join(''))
}

if (import.meta.main) {
  const [base, folder] = process.argv.slice(2)
  if (base === undefined || folder === undefined) throw new Error('Usage: node tools/image-files.ts BASE FOLDER')
  copyImageFiles(base, folder)
}
