// Third-party content of the bundle: an SBOM (CycloneDX), which includes the Node of the build, and the texts of the licences.
import { readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** The used fields of an entry of package-lock.json. */
interface Locked {
  version: string
  license?: string
  integrity?: string
}

interface Material extends Locked {
  /** As in package-lock.json: `node_modules/zod`. */
  path: string
  name: string
}

const folder = 'node_modules/'

/** The packages that these modules belong to, by the lock file's paths, sorted. */
function packagesOf(modules: readonly string[]): string[] {
  const paths = modules.flatMap((id) => {
    const at = id.lastIndexOf(`/${folder}`)
    if (at < 0) return []
    const [scope = '', name = ''] = id.slice(at + folder.length + 1).split('/')
    const inner = scope.startsWith('@') ? `${scope}/${name}` : scope
    return [`${id.slice(id.indexOf(`/${folder}`) + 1, at + 1)}${folder}${inner}`]
  })
  return [...new Set(paths)].sort()
}

async function materialsOf(root: string, modules: readonly string[]): Promise<Material[]> {
  const paths = packagesOf(modules)
  if (paths.length === 0) return []
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Locked>
  }
  return paths.map((path) => {
    const locked = lock.packages[path]
    if (locked === undefined) throw new Error(`${path} is bundled, but not in package-lock.json: run npm ci`)
    return { ...locked, path, name: path.slice(path.lastIndexOf(folder) + folder.length) }
  })
}

/** @see https://cyclonedx.org/docs/1.6/json/ */
function component({ integrity, license, name, version }: Material): object {
  const [algorithm, digest] = integrity?.split('-') ?? []
  return {
    type: 'library',
    name,
    version,
    purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
    ...(license !== undefined && { licenses: [{ license: { id: license } }] }),
    ...(algorithm === 'sha512' &&
      digest !== undefined && {
        hashes: [{ alg: 'SHA-512', content: Buffer.from(digest, 'base64').toString('hex') }],
      }),
  }
}

/** The running Node, which is that of the image, and its OpenSSL. */
function runtimes(): object[] {
  return (['node', 'openssl'] as const).map((name) => {
    const version = process.versions[name] ?? 'unknown'
    return { type: 'platform', name, version, purl: `pkg:generic/${name}@${version}` }
  })
}

async function licenceText(root: string, { license, name, path, version }: Material): Promise<string> {
  const files = await readdir(join(root, path))
  const texts = await Promise.all(
    files
      .filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
      .sort()
      .map((file) => readFile(join(root, path, file), 'utf8')),
  )
  return `${name} ${version} (${license ?? 'licence not named'})\n\n${texts.join('\n')}\n`
}

/** Writes sbom.cdx.json and THIRD-PARTY-LICENSES.txt for a bundle of these modules into `dir`. */
export async function writeMaterials(root: string, dir: string, modules: readonly string[]): Promise<void> {
  const materials = await materialsOf(root, modules)
  const { name, version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as Record<string, string>
  const sbom = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: { type: 'application', name, version } },
    components: [...materials.map(component), ...runtimes()],
  }
  const licences = await Promise.all(materials.map((material) => licenceText(root, material)))
  await Promise.all([
    writeFile(join(dir, 'sbom.cdx.json'), `${JSON.stringify(sbom, undefined, 2)}\n`),
    writeFile(join(dir, 'THIRD-PARTY-LICENSES.txt'), licences.join(`${'-'.repeat(80)}\n\n`)),
  ])
}
