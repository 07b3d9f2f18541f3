// `npm run release -- VERSION`: dates the CHANGELOG and sets the version in every file. It commits, tags and publishes nothing.
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** All files with the version of the program. */
const places = [
  'package.json',
  'package-lock.json',
  'Dockerfile',
  'config/kubernetes/**/*.yaml',
  'docs/{operations,commands}.md',
]

const versionForm = /^\d+\.\d+\.\d+$/

/** The text of package.json, or of the lock file, which has the version twice. */
function withVersion(text: string, version: string): string {
  const parsed = JSON.parse(text) as { version: string; packages?: { '': { version: string } } }
  parsed.version = version
  if (parsed.packages !== undefined) parsed.packages[''].version = version
  return `${JSON.stringify(parsed, null, 2)}\n`
}

/**
 * Writes a release into the files below `root`. Returns the changed ones.
 * @param date ISO 8601, `2026-12-01`
 * @throws Error before any write for an invalid version, or without an unreleased section in the CHANGELOG
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
  const named = new RegExp(`(webhook-reconciler:|VERSION=|io/version: |, version )${RegExp.escape(old)}`, 'g')
  for (const file of globSync(places, { cwd: root }).toSorted()) {
    const text = read(file)
    const changed = file.endsWith('.json') ? withVersion(text, version) : text.replaceAll(named, `$1${version}`)
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
