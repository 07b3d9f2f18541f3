// The file: what YAML can hold that is no configuration is refused with its line, and its content is never code.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import { anyCharacter } from '../../support/any-text.ts'
import { loadWith, problemsOf, toldOf } from '../../support/configuration.ts'

describe('what is not taken, with its line', () => {
  test.each<[string, string, string]>([
    [
      'a repeated key',
      'log:\n  level: info\n  level: debug',
      '--config (config.yaml:3): this key stands here a second time: keep one',
    ],
    ['a tab', 'log:\n\tlevel: info', '--config (config.yaml:2): a tab in the indentation'],
    [
      'crooked indentation',
      'retry:\n    enabled: true\n  concurrency: 2',
      '--config (config.yaml:3): the indentation does not fit',
    ],
    ['a quotation mark left open', 'log:\n  level: "info\n', '--config (config.yaml:3): something is not closed'],
    ['two colons', 'log: level: info', '--config (config.yaml:1): a second ": " in one line'],
    ['an unquoted @', 'log:\n  level: @info', '--config (config.yaml:2): the value starts with a character'],
    [
      'an unquoted cron',
      'schedule:\n  cron: */30 * * * * *',
      '--config (config.yaml:2): not understood: put values that start with *',
    ],
    ['two documents', 'log: {}\n---\nretry: {}', '--config (config.yaml:2): a second document'],
    ['a tag', 'log:\n  level: !secret x', '--config (config.yaml:2): a tag (!...) is not understood'],
    ['a key that is no text', '? [log]\n: {}', '--config (config.yaml:1): a key must be plain text'],
    ['a list', '- log', '--config (config.yaml): must hold sections with keys'],
    [
      'an alias as value',
      'window:\n  lookback: &a 2d\n  settle: *a',
      'window.settle (config.yaml:3): aliases (*name) are not taken',
    ],
    ['an alias as section', 'log: &a {}\nretry: *a', 'retry (config.yaml:2): aliases (*name) are not taken'],
    [
      'an alias in a list',
      'select:\n  modules: &a [x]\n  eventTypes: [*a]',
      'select.eventTypes (config.yaml:3): aliases (*name) are not taken',
    ],
    ['a merge', 'log: &a {}\nretry:\n  <<: *a', 'retry.<< (config.yaml:3): there is no such key'],
    [
      'a dotted key',
      'log.level: debug',
      'log.level (config.yaml:1): sections are nested: write log: and indented below it level:',
    ],
    ['a dotted section', 'retry.backoff: {}', 'retry.backoff (config.yaml:1): sections are nested: write retry:'],
    [
      'a nested section as text',
      'retry:\n  backoff: 1m',
      'retry.backoff (config.yaml:2): is a section: it takes keys below it, such as retry.backoff.initial',
    ],
    ['a key without value', 'log:\n  level:', 'log.level (config.yaml:2): has no value'],
    ['__proto__', '__proto__:\n  level: info', '__proto__ (config.yaml:1): there is no such key'],
    ['constructor', 'constructor: {prototype: {a: 1}}', 'constructor (config.yaml:1): there is no such key'],
    ['Windows line ends', 'log:\r\n  level: loud\r\n', 'log.level (config.yaml:2): must be one of'],
  ])('%s', (_, yaml, line) => {
    const told = toldOf(() => loadWith({ yaml }))
    expect(
      told.filter((problem) => problem.startsWith(line)),
      told.join('\n'),
    ).toHaveLength(1)
  })

  test('a bomb of aliases', () => {
    const levels = Array.from({ length: 30 }, (_, n) => `a${n + 1}: &a${n + 1} [*a${n}, *a${n}, *a${n}, *a${n}]`)
    const problems = problemsOf(() => loadWith({ yaml: ['a0: &a0 [x, x]', ...levels].join('\n') }))
    expect(problems).toHaveLength(31)
  })

  test.each([
    ['brackets', '['.repeat(10_000)],
    ['braces', '{a: '.repeat(10_000)],
    ['indentation', Array.from({ length: 5000 }, (_, depth) => `${' '.repeat(depth % 200)}a:`).join('\n')],
    ['more than a configuration can be', `# ${'x'.repeat(2 ** 20)}\n`],
    ['binary', String.fromCharCode(...Array.from({ length: 2000 }, (_, n) => (n * 7919) % 256))],
  ])('%s end as a problem, not as a crash', (_, yaml) => {
    expect(problemsOf(() => loadWith({ yaml })).length).toBeGreaterThan(0)
  })

  test('a text that can not be parsed hides what may stand in it, and only that', () => {
    const problems = problemsOf(() =>
      loadWith({ yaml: 'log: [', env: { RECONCILER_PLATFORM_BASE_URL: undefined, RECONCILER_LOG_LEVEL: 'x' } }),
    )
    expect(problems.map(({ key }) => key)).toEqual(['--config', 'log.level'])
  })

  test('a name from the file can not forge a line of the message', () => {
    const [problem] = problemsOf(() => loadWith({ yaml: '"a\\nlog.level (config.yaml:1)\\u001b[2J": 1' }))
    expect(problem?.key).toBe('a?log.level (config.yaml:1)?[2J')
  })

  test('no matter what stands in the file, it is taken or refused', () => {
    const piece = fc.oneof(
      fc.constantFrom('log:', 'level:', 'retry:', '---', '...', '- ', ': ', '&a ', '*a ', '!!', '? ', ', '),
      fc.constantFrom(...' \n\t"\'[]{}#|>%@'),
      fc.string({ unit: anyCharacter, maxLength: 5 }),
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        try {
          return loadWith({ yaml: pieces.join('') }).config.log.level.length > 0
        } catch (error) {
          return error instanceof ConfigurationError && error.problems.length > 0
        }
      }),
      { numRuns: 500 },
    )
  })
})
