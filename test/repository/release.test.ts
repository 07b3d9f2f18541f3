// The release script, on a copy: the version stands wherever it is named, the CHANGELOG has its date, and nothing else changes.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { release } from '../../tools/release.ts'
import { read, root } from './texts.ts'

let copy = ''
const readCopy = (file: string): string => readFileSync(join(copy, file), 'utf8')

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
  const changelog = (date: string, version: string): string =>
    `# Changelog\n\n## [${version}] - ${date}\n\n- It came.\n\n## [0.0.1] - 2026-01-01\n`
  writeFileSync(join(copy, 'CHANGELOG.md'), changelog('unreleased', old))
  const changed = release(copy, '9.8.7', '2026-12-01')
  expect(readCopy('CHANGELOG.md')).toBe(changelog('2026-12-01', '9.8.7'))
  // A dependency may have the old version, too.
  const lock = read('package-lock.json').split('\n')
  const isChanged = (line: string, index: number): boolean => line !== lock[index]
  expect(readCopy('package-lock.json').split('\n').filter(isChanged)).toEqual([
    '  "version": "9.8.7",',
    '      "version": "9.8.7",',
  ])
  const manifests = ['base/container', 'compare/cronjob', 'deployment/deployment'].map(
    (name) => `config/kubernetes/${name}.yaml`,
  )
  const files = ['package.json', 'Dockerfile', 'docs/operations.md', ...manifests]
  expect(changed).toEqual(expect.arrayContaining([...files, 'package-lock.json']))
  for (const file of files) {
    expect(readCopy(file)).toContain('9.8.7')
    expect(readCopy(file)).not.toContain(`reconciler:${old}`)
    expect(readCopy(file)).not.toContain(`io/version: ${old}`)
  }
})

const released = '## [0.2.0] - 2026-12-01\n\n- It came.\n'

test.each([
  ['no version', 'v1', undefined, 'three numbers'],
  ['nothing that is unreleased', '9.8.7', `# Changelog\n\n${released}`, 'CHANGELOG.md'],
  ['an empty section', '9.8.7', `# Changelog\n\n## [0.3.0] - unreleased\n\n${released}`, 'CHANGELOG.md'],
])('%s: nothing is written', (_, version, changelog, problem) => {
  if (changelog !== undefined) writeFileSync(join(copy, 'CHANGELOG.md'), changelog)
  expect(() => release(copy, version, '2026-12-01')).toThrow(problem)
  expect(readCopy('package.json')).toBe(read('package.json'))
})
