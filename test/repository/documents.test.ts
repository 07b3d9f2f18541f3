// Documents hold together: links, headings and paths that documents and comments name exist, and README stays short.
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'
import { processMetricNames } from '../../src/observe/process-metrics.ts'
import { logEvents } from '../../src/observe/log/log-events.ts'
import { metricDefinitions } from '../../src/observe/metrics.ts'
import { keys, schema } from '../../src/config/schema.ts'
import { heapPercent } from '../../src/runtime/memory.ts'
import { load } from '../support/configuration.ts'
import { filesIn, read, root } from './texts.ts'

const atRoot = readdirSync(root).filter((name) => name.endsWith('.md'))
const documents = [...atRoot, ...filesIn('docs', ['.md'])]
const code = ['src', 'test', 'tools', 'config', 'sandbox']
  .flatMap((folder) => filesIn(folder, ['.ts', '.yaml', '.json']))
  .filter((file) => file !== 'test/repository/documents.test.ts')

const withoutCode = (text: string): string => text.replaceAll(/^ *```[^]*?^ *```/gm, '')

function headingsOf(file: string): string[] {
  return [...withoutCode(read(file)).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading)
}

/** The anchor that Markdown viewers give a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')
}

/** What is wrong with the links of a text in this folder of the repository. */
function brokenLinks(folder: string, text: string, ownHeadings: readonly string[] = []): string[] {
  const links = [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
  return links.filter((link) => {
    if (/^https?:/.test(link)) return false
    const [path = '', anchor] = link.split('#')
    const file = normalize(join(folder, path))
    if (path !== '' && !existsSync(join(root, file))) return true
    if (anchor === undefined) return false
    return !(path === '' ? ownHeadings : headingsOf(file)).some((heading) => anchorOf(heading) === anchor)
  })
}

/** References of comments, such as docs/architecture.md "Sweep", "Time": each document and heading that there is not. */
function brokenReferences(text: string): string[] {
  const references = [...text.matchAll(/(?<![\w./-])((?:docs\/)?[\w-]+(?:\/[\w-]+)*\.md)((?:,? "[^"\n]+")*)/g)]
  return references.flatMap(([, file = '', headings = '']) => {
    if (!existsSync(join(root, file))) return [file]
    const known = headingsOf(file)
    const named = [...headings.matchAll(/"([^"]+)"/g)].map(([, heading = '']) => heading)
    return named.filter((heading) => !known.includes(heading)).map((heading) => `${file} "${heading}"`)
  })
}

/** Paths of the repository that a text names and that do not exist. */
function brokenPaths(text: string): string[] {
  const paths = [...text.matchAll(/(?<![\w./-])((?:src|test|docs|config|tools|sandbox)\/[\w./-]*\w)(?![\w*{<])/g)]
  return paths.map(([, path = '']) => path).filter((path) => !existsSync(join(root, path)))
}

test('what is broken would be found', () => {
  expect(brokenLinks('.', 'see [here](docs/none.md), [there](docs/README.md#none), [x](#y)')).toHaveLength(3)
  expect(brokenLinks('docs', 'see [it](../README.md), [here](#y)', ['Y'])).toEqual([])
  expect(brokenReferences('@see docs/architecture.md "Sweep", "No such"')).toEqual(['docs/architecture.md "No such"'])
  expect(brokenReferences('@see none.md 4.2')).toEqual(['none.md'])
  expect(brokenPaths('in src/none.ts, `test/repository` and /etc/config/x')).toEqual(['src/none.ts'])
})

test.each(documents)('%s: links lead to files and headings, and paths exist', (file) => {
  const text = read(file)
  expect(brokenLinks(dirname(file), text, headingsOf(file))).toEqual([])
  // The changelog also names what has gone.
  if (file !== 'CHANGELOG.md') expect(brokenPaths(withoutCode(text))).toEqual([])
})

test.each(code)('%s: references to documents resolve', (file) => {
  expect(brokenReferences(read(file))).toEqual([])
})

test.each(['docs/runbook.md', 'docs/operations.md'])('%s names metrics and log events that exist', (file) => {
  const labels = ['grafana_dashboard', 'instance_name']
  const known = [...Object.keys(metricDefinitions), ...processMetricNames, ...Object.keys(logEvents), ...labels]
  const texts = read(file).matchAll(/`([a-z]+(?:_[a-z]+)+)[`{]/g)
  const named = Array.from(texts, ([, name = '']) => name.replace('webhook_reconciler_', ''))
  expect(named.length).toBeGreaterThan(10)
  expect(named.filter((name) => !known.includes(name))).toEqual([])
})

test('the names in CONTRIBUTING exist, and those in "Where to look" are in a file of their row', () => {
  const unknown = (text: string, files: readonly string[]): string[] => {
    const known = new Set(files.flatMap((file) => read(file).match(/\w+/g)))
    return Array.from(text.matchAll(/`([a-z]{2}\w*)`/g), ([, name = '']) => name).filter((name) => !known.has(name))
  }
  expect(unknown('`noName`', ['README.md'])).toEqual(['noName'])
  expect(unknown(read('CONTRIBUTING.md'), code)).toEqual([])
  for (const row of read('docs/architecture.md').match(/^\|.*\]\(\.\.\/src.*$/gm) ?? []) {
    const files = Array.from(row.matchAll(/\.\.\/(src[^)]+)/g), ([, file = '']) => file)
    expect(unknown(row, files)).toEqual([])
  }
})

test('every page of docs/ is in its list of contents', () => {
  for (const folder of ['docs', 'docs/decisions']) {
    const pages = readdirSync(join(root, folder)).filter((name) => name.endsWith('.md') && name !== 'README.md')
    for (const page of pages) expect(read(`${folder}/README.md`)).toContain(`(${page})`)
  }
})

/** Names of the program's commands. */
const commands = new Set(
  [...read('src/cli/program.ts').matchAll(/(?:add|command)\(\s*'([a-z-]+)'/g)].map(([, name = '']) => name),
)

test.each([...commands])('docs/commands.md has a row for %s', (name) => {
  expect(read('docs/commands.md')).toMatch(new RegExp(`^\\|[^|]*\`${name}\`[^|]*\\|`, 'm'))
})

test('every npm script and command that documents name exists', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  expect(commands).toContain('print-config')
  const missing = documents
    .filter((file) => file !== 'CHANGELOG.md')
    .flatMap((file) => {
      const snippets = Array.from(
        read(file).matchAll(/^ *```\w*\n[^]*?^ *```|`[^`\n]+`/gm),
        ([snippet]) => snippet,
      ).join('\n')
      const named = [
        ...[...snippets.matchAll(/npm run ([\w:]+)/g)].filter(([, name = '']) => !(name in scripts)),
        ...[...snippets.matchAll(/webhook-reconciler(?: -c \S+| -n \S+ --)? ([a-z][\w-]*)/g)].filter(
          ([, name = '']) => !commands.has(name),
        ),
      ]
      return named.map(([match]) => `${file}: ${match}`)
    })
  expect(missing).toEqual([])
})

/** Names of the flags of all commands. */
const flags = new Set([...read('src/cli/program.ts').matchAll(/'(?:-\w, )?(--[a-z-]+)/g)].map(([, name = '']) => name))

test('the documents of commands name each flag', () => {
  const texts = read('docs/commands.md') + read('docs/compare.md')
  const own = new Set(['--format', '--version'])
  expect([...flags].filter((flag) => !own.has(flag) && !texts.includes(flag))).toEqual([])
})

test('every flag that a document gives to a command exists', () => {
  const unknown = documents.flatMap((file) =>
    [...read(file).matchAll(/webhook-reconciler ([a-z-]+)((?: [^\s`|;&]+)*)/g)].flatMap(([, name = '', rest = '']) =>
      [...rest.matchAll(/ (--[a-z-]+)/g)].flatMap(([, flag = '']) =>
        !commands.has(name) || flags.has(flag) || flag === '--help' ? [] : `${file}: ${flag}`,
      ),
    ),
  )
  expect(unknown).toEqual([])
})

test('some file has each key of the configuration and its section, and the group is described', () => {
  const files = filesIn('src', ['.ts']).filter((file) => file !== 'src/config/schema.ts')
  const [comment, message] = [/^ *(?:\/\/|\/?\*).*$/gm, /'[^'\n]* [^'\n]*'|`[^`]*`/g]
  const sources = files.map((file) => new Set(read(file).replaceAll(comment, '').replaceAll(message, '').match(/\w+/g)))
  const unread = keys.filter(({ key }) => {
    const words = key.split('.').slice(-2)
    return !sources.some((source) => words.every((word) => source.has(word)))
  })
  expect(unread.map(({ key }) => key)).toEqual([])
  const groups = /## Groups\n([^#]*)/.exec(read('docs/configuration.md'))?.[1] ?? ''
  for (const group of Object.keys(schema.shape)) expect(groups).toContain(`\`${group}\``)
})

test('the configuration in README is whole', () => {
  const yaml = /```yaml\n([^]*?)```/.exec(read('README.md'))?.[1] ?? ''
  const { config } = load({ yaml: yaml.replaceAll(/^ {3}/gm, '') })
  expect(config.retry.enabled).toBe(false)
  expect(config.auth.issuerUrl).toBe('https://id.example.com/auth/realms/your-realm')
})

test('each unit of systemd that runs the program limits it alike', () => {
  const units = ['docs/operations.md', 'docs/compare.md'].flatMap((file) =>
    Array.from(read(file).matchAll(/```ini\n([^]*?)```/g), ([, unit = '']) => unit).filter((unit) =>
      unit.includes('ExecStart='),
    ),
  )
  expect(units).toHaveLength(2)
  const limits = (unit: string): string[] =>
    (
      unit.match(/^ *(?:\w+(?:Max|CORE|BoundingSet|Privileges|Devices|Tmp|Home|System)=|Environment=NODE).*$/gm) ?? []
    ).map((line) => line.trim())
  const [daemon = '', comparison = ''] = units
  expect(limits(daemon)).toEqual(
    expect.arrayContaining([
      'MemoryMax=512M',
      'PrivateTmp=true',
      'ProtectHome=true',
      'ProtectSystem=strict',
      'LimitCORE=0',
    ]),
  )
  expect(limits(comparison)).toEqual(limits(daemon))
  expect(daemon).toContain(`--max-old-space-size-percentage=${heapPercent}`)
  expect(daemon).toMatch(/^ *Restart=on-failure\n[^]*^ *RestartPreventExitStatus=78$/m)
})

test('README stays short', () => {
  const text = read('README.md')
  const lines = text.split('\n')
  expect(lines.length).toBeLessThanOrEqual(200)
  expect(text.split(/\s+/).length).toBeLessThanOrEqual(1400)
  expect(lines.filter((line) => line.length > 200 && !line.startsWith('|'))).toEqual([])
})
