// The release script, on a copy: the version stands wherever it is named, the CHANGELOG has its date, and nothing else changes.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { release } from '../../tools/release.ts'

const root = join(import.meta.dirname, '../..')
let copy = ''
const read = (file: string): string => readFileSync(join(copy, file), 'utf8')

beforeEach(() => {
  copy = mkdtempSync(join(tmpdir(), 'release-'))
  for (const part of ['package.json', 'package-lock.json', 'Dockerfile', 'CHANGELOG.md', 'config', 'docs']) {
    cpSync(join(root, part), join(copy, part), { recursive: true })
  }
})

afterEach(() => {
  rmSync(copy, { recursive: true })
})

test('sets the version everywhere, and dates the CHANGELOG', () => {
  const { version: old } = JSON.parse(read('package.json')) as { version: string }
  writeFileSync(
    join(copy, 'CHANGELOG.md'),
    `# Changelog\n\n## [${old}] - unreleased\n\n- It came.\n\n## [0.0.1] - 2026-01-01\n`,
  )
  const changed = release(copy, '9.8.7', '2026-12-01')
  expect(changed).toEqual(
    expect.arrayContaining(['package.json', 'package-lock.json', 'Dockerfile', 'docs/operations.md']),
  )
  expect(read('CHANGELOG.md')).toBe('# Changelog\n\n## [9.8.7] - 2026-12-01\n\n- It came.\n\n## [0.0.1] - 2026-01-01\n')
  const lock = JSON.parse(read('package-lock.json')) as {
    version: string
    packages: Record<string, { version: string }>
  }
  const before = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as typeof lock
  expect([lock.version, lock.packages['']?.version]).toEqual(['9.8.7', '9.8.7'])
  for (const [name, { version }] of Object.entries(before.packages)) {
    if (name !== '') expect(lock.packages[name]?.version).toBe(version)
  }
  for (const file of changed) if (file !== 'package-lock.json') expect(read(file)).not.toContain(`reconciler:${old}`)
  expect(read('config/kubernetes/base/container.yaml')).toContain('webhook-reconciler:9.8.7')
})

test.each([
  ['no version', 'v1', undefined, 'three numbers'],
  ['nothing that is unreleased', '9.8.7', '# Changelog\n\n## [0.2.0] - 2026-12-01\n\n- It came.\n', 'CHANGELOG.md'],
  [
    'an empty section',
    '9.8.7',
    '# Changelog\n\n## [0.3.0] - unreleased\n\n## [0.2.0] - 2026-12-01\n\n- a\n',
    'CHANGELOG.md',
  ],
])('%s: nothing is written', (_, version, changelog, problem) => {
  if (changelog !== undefined) writeFileSync(join(copy, 'CHANGELOG.md'), changelog)
  const before = read('package.json')
  expect(() => release(copy, version, '2026-12-01')).toThrow(problem)
  expect(read('package.json')).toBe(before)
})
