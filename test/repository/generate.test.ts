// What `npm run generate` writes: how, the list of what follows SemVer, and that people and editors can use the files.
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { generate, markdownPart, markdownTable, wholeFile } from '../../tools/generate.ts'
import type { Files } from '../../tools/generate.ts'
import { renderPublicApi } from '../../tools/public-api.ts'
import { keys } from '../../src/config/schema.ts'
import { load, loadWith } from '../support/configuration.ts'
import { read } from './texts.ts'

/** Files in memory. */
function memory(initial: Record<string, string>): Files & { all: Map<string, string> } {
  const all = new Map(Object.entries(initial))
  return { all, read: (path) => all.get(path), write: (path, text) => void all.set(path, text) }
}

describe('generate', () => {
  const list = [wholeFile('a.txt', () => 'new\n'), markdownPart('README.md', 'x', () => 'table\n')]
  const readme = '# Title\n\n<!-- generated: x -->\nold\n<!-- /generated -->\n\nEnd\n'
  const fresh = readme.replace('old\n', '<!-- prettier-ignore-start -->\n\ntable\n\n<!-- prettier-ignore-end -->\n')

  test('writes what is stale, keeps what surrounds it, and has nothing to do the second time', () => {
    const files = memory({ 'README.md': readme })
    expect(generate(list, files, false)).toEqual({ ok: true, lines: ['a.txt written', 'README.md written'] })
    expect(Object.fromEntries(files.all)).toEqual({ 'a.txt': 'new\n', 'README.md': fresh })
    expect(generate(list, files, false)).toEqual({ ok: true, lines: [] })
    expect(generate(list, files, true)).toEqual({ ok: true, lines: [] })
  })

  test('--check names what is stale and writes nothing', () => {
    const files = memory({ 'a.txt': 'old\n', 'README.md': fresh })
    expect(generate(list, files, true)).toEqual({ ok: false, lines: ['a.txt is stale: run npm run generate'] })
    expect(files.all.get('a.txt')).toBe('old\n')
  })

  test.each([
    ['no file', undefined],
    ['the end before the beginning', '<!-- /generated -->\n<!-- generated: x -->\n'],
    ['marks of another part', '<!-- generated: y -->\n<!-- /generated -->\n'],
  ])('%s: reported, and wrong only for --check', (_, text) => {
    const files = memory({ 'a.txt': 'new\n', ...(text !== undefined && { 'README.md': text }) })
    const written = generate(list, files, false)
    expect(written).toMatchObject({ ok: true, lines: [expect.stringMatching(/^README\.md: unchanged: /)] })
    expect(generate(list, files, true).ok).toBe(false)
    expect(files.all.get('README.md')).toBe(text)
  })

  test('a | in a cell of a table is escaped', () => {
    expect(markdownTable(['a', 'b'], [['`x|y`', '1']])).toBe('| a | b |\n| --- | --- |\n| `x\\|y` | 1 |\n')
  })
})

const released = (newest: string): string =>
  `# Changelog\n\n## [0.3.0] - unreleased\n\n${newest}\n\n## [0.2.0] - 2026-12-01\n\n- \`old.key\` came.\n`
const gone = { problem: 'gone, and not named in the newest section of CHANGELOG.md: key old.key' }
const now = { text: 'key a\nkey new\n' }

test.each([
  ['not named', released('- Faster.'), gone],
  ['named without backticks', released('- old.key is gone.'), gone],
  ['a part of it named', released('- `old` is gone.'), gone],
  ['named', released('- `old.key` is gone.'), now],
  ['its section named', released('- `old.*` is gone.'), now],
  ['never released', '# Changelog\n\n## [0.2.0] - unreleased\n', now],
])('the list of what follows SemVer: a name is gone, %s', (_, changelog, result) => {
  expect(renderPublicApi('key a\nkey old.key\n', changelog, ['key a', 'key new'])).toEqual(result)
})

test('default.yaml with the required keys is exactly the defaults, each in its place', () => {
  const { config, origins } = loadWith({ yaml: read('config/default.yaml') })
  expect(config).toEqual(loadWith({}).config)
  const withDefault = keys.filter(({ defaultValue }) => defaultValue !== undefined)
  for (const { key } of withDefault) expect(origins.get(key), key).toMatch(/^config\.yaml:\d+$/)
})

test('a comment of default.yaml taken away, with a value behind it, is a key', () => {
  const yaml = read('config/default.yaml').replace('# notBefore:', 'notBefore: 2026-01-01T00:00:00Z')
  expect(loadWith({ yaml }).config.window.notBefore).toBe(Date.UTC(2026, 0, 1))
})

test('example.yaml is a whole configuration, also with its comments, which name variables that exist', () => {
  const text = read('config/example.yaml')
  expect(load({ yaml: text }).config.auth.issuerUrl).toBe('https://id.example.com/auth/realms/your-realm')
  const known = new Set(keys.flatMap(({ environment, fileTwin }) => [environment, fileTwin]))
  expect(text.match(/RECONCILER_[A-Z_]+/g)?.filter((name) => !known.has(name))).toEqual([])
  expect(load({ yaml: text.replaceAll(/^ {2}# (\w+:)/gm, '  $1') }).config).toMatchObject({
    window: { notBefore: Date.UTC(2026, 0, 1) },
    retry: { maxPerSecond: 5 },
  })
})

describe('schema.json', () => {
  const schema = z.fromJSONSchema(JSON.parse(read('config/schema.json')) as Parameters<typeof z.fromJSONSchema>[0])

  test.each(['config/default.yaml', 'config/example.yaml'])('takes %s', (path) => {
    expect(schema.safeParse(parse(read(path))).error?.issues).toBeUndefined()
  })

  test.each([
    { retry: { backoff: { nonsense: 1 } } },
    { window: { lookback: '7' } },
    { server: { port: 70_000 } },
    { log: { level: 'loud' } },
  ])('refuses %j', (value) => {
    expect(schema.safeParse(value).success).toBe(false)
  })
})
