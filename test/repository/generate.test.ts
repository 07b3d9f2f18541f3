import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { format } from 'prettier'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { generate, markdownPart, markdownTable, targets, wholeFile } from '../../tools/generate.ts'
import type { Files } from '../../tools/generate.ts'
import { renderPublicApi } from '../../tools/public-api.ts'
import { keys } from '../../src/config/schema.ts'
import { load, loadWith, problemsOf } from '../support/configuration.ts'

const root = join(import.meta.dirname, '../..')
const file = (path: string): string => readFileSync(join(root, path), 'utf8')

/** Files in memory. */
function memory(initial: Record<string, string>): Files & { all: Map<string, string> } {
  const all = new Map(Object.entries(initial))
  return { all, read: (path) => all.get(path), write: (path, text) => void all.set(path, text) }
}

describe('generate', () => {
  const list = [wholeFile('a.txt', () => 'new\n'), markdownPart('README.md', 'x', () => 'table\n')]
  const readme = '# Title\n\n<!-- generated: x -->\nold\n<!-- /generated -->\n\nEnd\n'
  const fresh =
    '# Title\n\n<!-- generated: x -->\n<!-- prettier-ignore-start -->\n\ntable\n\n<!-- prettier-ignore-end -->\n<!-- /generated -->\n\nEnd\n'

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
    ['no file', {}],
    ['no marks', { 'README.md': '# Title\n' }],
    ['no end mark', { 'README.md': '<!-- generated: x -->\n' }],
    ['the end before the beginning', { 'README.md': '<!-- /generated -->\n<!-- generated: x -->\n' }],
    ['marks of another part', { 'README.md': '<!-- generated: y -->\n<!-- /generated -->\n' }],
  ])('%s: reported, and wrong only for --check', (_, initial: Record<string, string>) => {
    const files = memory({ 'a.txt': 'new\n', ...initial })
    const written = generate(list, files, false)
    expect(written).toMatchObject({ ok: true, lines: [expect.stringMatching(/^README\.md: left as it is: /)] })
    expect(generate(list, files, true).ok).toBe(false)
    expect(files.all.get('README.md')).toBe((initial as Record<string, string | undefined>)['README.md'])
  })

  test('two parts of one file do not undo each other', () => {
    const two = [markdownPart('R', 'x', () => 'X\n'), markdownPart('R', 'y', () => 'Y\n')]
    const files = memory({
      R: '<!-- generated: x -->\n<!-- /generated -->\n<!-- generated: y -->\n<!-- /generated -->\n',
    })
    generate(two, files, false)
    expect(generate(two, files, true)).toEqual({ ok: true, lines: [] })
    expect(files.all.get('R')).toMatch(/X[^]*\/generated[^]*Y/)
  })

  test('a table survives prettier, and a | in a cell', async () => {
    const table = markdownTable(['a', 'b'], [['`x|y`', '1']])
    expect(table).toBe('| a | b |\n| --- | --- |\n| `x\\|y` | 1 |\n')
    expect(await format(fresh.replace('table\n', table), { parser: 'markdown' })).toBe(fresh.replace('table\n', table))
  })
})

describe('the list of what follows SemVer', () => {
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
  ])('a name is gone, %s', (_, changelog, result) => {
    expect(renderPublicApi('key a\nkey old.key\n', changelog, ['key a', 'key new'])).toEqual(result)
  })
})

describe('what is in the repository', () => {
  test.each(['config/default.yaml', 'config/schema.json', 'docs/public-api.txt'])('%s is up to date', (path) => {
    const target = targets.find((candidate) => candidate.file === path)
    expect(target?.render(undefined)).toEqual({ text: file(path) })
  })

  test('docs/ has the tables of the configuration, the metrics, the gates, the rules and the log events as they are', () => {
    const pages = targets.filter((target) => /^docs\/.*\.md$/.test(target.file))
    expect(pages.map((target) => target.file)).toEqual(
      ['configuration', 'metrics', 'status', 'commands', 'log'].map((page) => `docs/${page}.md`),
    )
    for (const target of pages) expect(target.render(file(target.file))).toEqual({ text: file(target.file) })
  })

  test('default.yaml with the required keys is exactly the defaults', () => {
    const yaml = file('config/default.yaml')
    const { config, origins } = loadWith({ yaml })
    expect(config).toEqual(loadWith({}).config)
    const withDefault = keys.filter(({ defaultValue }) => defaultValue !== undefined)
    for (const { key } of withDefault) expect(origins.get(key)).toMatch(/^config\.yaml:\d+$/)
  })

  test('default.yaml names every key, and by itself asks for the required ones only', () => {
    const yaml = file('config/default.yaml')
    for (const { key, explanation } of keys) {
      expect(yaml).toMatch(new RegExp(`^ *(# )?${key.split('.').at(-1) ?? ''}:`, 'm'))
      expect(yaml).toContain(explanation)
    }
    expect(new Set(problemsOf(() => load({ yaml })).map(({ origin }) => origin))).toEqual(new Set(['missing']))
  })

  test('a comment of default.yaml taken away, with a value behind it, is a key', () => {
    const yaml = file('config/default.yaml').replace('# notBefore:', 'notBefore: 2026-01-01T00:00:00Z')
    expect(loadWith({ yaml }).config.window.notBefore).toBe(Date.UTC(2026, 0, 1))
  })

  test('example.yaml is a whole configuration', () => {
    const { config } = load({ yaml: file('config/example.yaml') })
    expect(config.auth.issuerUrl).toBe('https://id.example.com/auth/realms/your-realm')
    expect(config.auth.privateKeyFile).toMatch(/^\//)
  })

  test("example.yaml's comments name keys and variables that exist", () => {
    const text = file('config/example.yaml')
    const known = new Set(keys.flatMap(({ environment, fileTwin }) => [environment, fileTwin]))
    expect(text.match(/RECONCILER_[A-Z_]+/g)?.filter((name) => !known.has(name))).toEqual([])
    const commented = text.replaceAll(/^ {2}# (\w+:)/gm, '  $1')
    expect(load({ yaml: commented }).config).toMatchObject({
      window: { notBefore: Date.UTC(2026, 0, 1) },
      retry: { maxPerSecond: 5 },
    })
  })
})

describe('schema.json', () => {
  const schema = z.fromJSONSchema(JSON.parse(file('config/schema.json')) as Parameters<typeof z.fromJSONSchema>[0])

  test.each(['config/default.yaml', 'config/example.yaml'])('takes %s', (path) => {
    expect(schema.safeParse(parse(file(path))).error?.issues).toBeUndefined()
  })

  test.each([
    ['an unknown section', { nonsense: {} }],
    ['an unknown key', { retry: { nonsense: 1 } }],
    ['an unknown nested key', { retry: { backoff: { nonsense: 1 } } }],
    ['a bare number as duration', { window: { lookback: 7 } }],
    ['a duration without unit', { window: { lookback: '7' } }],
    ['a port out of range', { server: { port: 70_000 } }],
    ['a word that is none', { log: { level: 'loud' } }],
  ])('refuses %s', (_, value) => {
    expect(schema.safeParse(value).success).toBe(false)
  })

  test('describes every key', () => {
    const text = file('config/schema.json')
    for (const { explanation } of keys) expect(text).toContain(JSON.stringify(explanation).slice(1, -1))
  })
})
