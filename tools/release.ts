// `npm run release -- VERSION`: dates the CHANGELOG and sets the version wherever it stands. It commits, tags and publishes nothing.
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Everything that names the version of the program. */
const places = [
  'package.json',
  'package-lock.json',
  'Dockerfile',
  'config/kubernetes/**/*.yaml',
  'docs/{operations,commands}.md',
]

const versionForm = /^\d+\.\d+\.\d+$/

/**
 * Writes a release into the files below `root`. Returns those that it changed.
 * @param date ISO 8601, `2026-12-01`
 * @throws Error, before anything is written, when the version is none, or the CHANGELOG has nothing to release
 */
export function release(root: string, version: string, date: string): string[] {
  if (!versionForm.test(version)) throw new Error(`the version: three numbers such as 1.2.3, not "${version}"`)
  const read = (file: string): string => readFileSync(join(root, file), 'utf8')
  const { version: old } = JSON.parse(read('package.json')) as { version: string }
  const changelog = read('CHANGELOG.md')
  const [heading = '', body = ''] =
    /^## \[\d+\.\d+\.\d+\] - unreleased\n([^]*?)(?=^## |$(?![^]))/m.exec(changelog) ?? []
  if (body.trim() === '')
    throw new Error('CHANGELOG.md: no section "## [VERSION] - unreleased" with an entry stands first')
  const dated = heading.replace(/\[.*\] - unreleased/, `[${version}] - ${date}`)
  const changes = new Map([['CHANGELOG.md', changelog.replace(heading, dated)]])
  for (const file of globSync(places, { cwd: root }).toSorted()) {
    const text = read(file)
    // In the lock file the first two are ours; others belong to packages of the same version.
    const parts = text.split(old)
    const ours = file === 'package-lock.json' ? 2 : parts.length - 1
    const changed =
      parts.slice(0, ours + 1).join(version) +
      parts
        .slice(ours + 1)
        .map((part) => old + part)
        .join('')
    if (changed !== text) changes.set(file, changed)
  }
  for (const [file, text] of changes) writeFileSync(join(root, file), text)
  return [...changes.keys()]
}

if (import.meta.main) {
  const changed = release(join(import.meta.dirname, '..'), process.argv[2] ?? '', new Date().toISOString().slice(0, 10))
  process.stdout.write(
    `changed: ${changed.join(', ')}\nNext: npm run generate && .ci/run, commit, tag v${process.argv[2] ?? ''}, build the image with --build-arg REVISION\n`,
  )
}
