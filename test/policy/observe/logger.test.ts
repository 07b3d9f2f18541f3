import { mkdtempSync, openSync, readFileSync, rmSync, closeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Clock } from '../../../src/runtime/clock.ts'
import type { LogFields } from '../../../src/observe/log.ts'
import { createLogger, fileDescriptorSink } from '../../../src/observe/logger.ts'
import type { Logger, LoggerOptions } from '../../../src/observe/logger.ts'

const clock: Clock = {
  now: () => Date.UTC(2026, 0, 2, 3, 4, 5, 678),
  monotonic: () => 0,
  sleep: () => Promise.resolve(),
}

function capture(options: Partial<LoggerOptions> = {}): { log: Logger; lines: string[] } {
  const lines: string[] = []
  const log = createLogger({
    level: 'debug',
    format: 'json',
    instance: 'reconciler-0',
    clock,
    write: (line) => void lines.push(line),
    ...options,
  })
  return { log, lines }
}

const parsed = (line: string | undefined): Record<string, unknown> => JSON.parse(line ?? '') as Record<string, unknown>

describe('a line', () => {
  test('holds level, time, instance, fields and message, at once', () => {
    const { log, lines } = capture()
    log.info('sweep finished', { sweepId: 'a', records: 3, ok: true, note: null, names: ['x', 'y'] })
    expect(lines).toEqual([
      '{"level":"info","time":"2026-01-02T03:04:05.678Z","instance":"reconciler-0","sweepId":"a","records":3,"ok":true,"note":null,"names":["x","y"],"msg":"sweep finished"}\n',
    ])
  })

  test.each(['debug', 'info', 'warn', 'error'] as const)('of level %s says so', (level) => {
    const { log, lines } = capture()
    log[level]('x')
    expect(parsed(lines[0])).toEqual({ level, time: '2026-01-02T03:04:05.678Z', instance: 'reconciler-0', msg: 'x' })
  })

  test.each([
    ['trace', 4],
    ['debug', 4],
    ['info', 3],
    ['warn', 2],
    ['error', 1],
    ['fatal', 0],
    ['silent', 0],
  ] as const)('is written from level %s on', (level, count) => {
    const { log, lines } = capture({ level })
    for (const of of ['debug', 'info', 'warn', 'error'] as const) log[of]('x')
    expect(lines).toHaveLength(count)
  })

  test('carries the fields of its children, the nearest one winning', () => {
    const { log, lines } = capture({ base: { version: '1' } })
    const child = log.child({ sweepId: 's', kind: 'full' }).child({ kind: 'fresh' })
    child.info('x', { sweepId: 't' })
    log.info('y')
    expect(parsed(lines[0])).toMatchObject({ version: '1', sweepId: 't', kind: 'fresh' })
    expect(lines[0]?.match(/sweepId/g)).toHaveLength(1)
    expect(parsed(lines[1])).not.toHaveProperty('kind')
  })

  test('can not be given another time, level, message or instance', () => {
    const { log, lines } = capture()
    log.child({ instance: 'other' }).info('real', { level: 'fatal', time: 'never', msg: 'forged' })
    expect(parsed(lines[0])).toMatchObject({
      level: 'info',
      instance: 'reconciler-0',
      msg: 'real',
      level_: 'fatal',
      instance_: 'other',
    })
    expect(lines[0]?.match(/"(level|time|msg|instance)":/g)).toHaveLength(4)
  })

  test.each<[string, unknown, unknown]>([
    ['an object', { authorization: 'x' }, '[object]'],
    ['an error', new Error('secret'), '[object]'],
    ['a function', () => 1, '[function]'],
    ['a bigint', 10n, '[bigint]'],
    ['a symbol', Symbol('s'), '[symbol]'],
    ['no number', NaN, 'NaN'],
    ['an endless number', -Infinity, '-Infinity'],
    ['a list of objects', [{ a: 1 }, 'b'], ['[object]', 'b']],
    ['something that makes its own JSON', { toJSON: () => 'secret' }, '[object]'],
  ])('holds no more than the kind of %s, whatever a cast lets through', (_, value, written) => {
    const { log, lines } = capture()
    log.info('x', { value } as LogFields)
    expect(parsed(lines[0])['value']).toEqual(written)
  })

  test('leaves out what is undefined, and cuts what is long', () => {
    const { log, lines } = capture()
    log.info('x', { gone: undefined, long: 'a'.repeat(100_000), list: Array.from({ length: 1000 }, () => 'b') })
    const line = parsed(lines[0])
    expect(line).not.toHaveProperty('gone')
    expect(line['long']).toBe(`${'a'.repeat(4000)}...`)
    expect(line['list']).toHaveLength(100)
  })
})

describe('secrets', () => {
  const jwt = 'eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJjIn0.c2ln'

  test.each<[string, LogFields]>([
    ['a token', { a: jwt }],
    ['a token in a list', { a: ['x', `Bearer ${jwt}`] }],
    ['a key', { a: '-----BEGIN PRIVATE KEY-----\nc2ln\n-----END PRIVATE KEY-----\n' }],
    ['a JSON text', { a: JSON.stringify({ access_token: 'c2ln' }) }],
  ])('%s never reaches a line', (_, fields) => {
    for (const format of ['json', 'pretty'] as const) {
      const { log, lines } = capture({ format })
      log.info('x', fields)
      log.child(fields).info('y')
      expect(lines).toHaveLength(2)
      expect(lines.join('')).not.toContain('c2ln')
    }
  })

  test('an IBAN neither, while ids stay', () => {
    const { log, lines } = capture()
    log.info('x', { a: 'to DE89 3704 0044 0532 0130 00.', id: '123e4567-e89b-12d3-a456-426614174000' })
    expect(parsed(lines[0])).toMatchObject({ a: 'to [iban].', id: '123e4567-e89b-12d3-a456-426614174000' })
  })
})

describe('a value can not forge a line', () => {
  const breaks = '\n\r\u2028\u2029\u0085\u000b\u000c\u0000\u001b[31m\u202e\ufeff\u007f'
  const invisible = /[\p{Cc}\p{Cf}\u2028\u2029]/u

  test.each(['json', 'pretty'] as const)('%s', (format) => {
    const { log, lines } = capture({ format })
    const forged = `${breaks}{"level":"error","msg":"forged"}`
    log.info('x', { forged, list: [forged] })
    expect(lines).toHaveLength(1)
    expect(lines[0]?.endsWith('\n')).toBe(true)
    expect(lines[0]?.slice(0, -1)).not.toMatch(invisible)
  })

  test('and any text is one line, which reads back as it was', () => {
    const plain = fc.string({ unit: 'binary' }).filter((text) => !/eyJ|BEGIN|bearer|auth|pass|https?:/i.test(text))
    const { log, lines } = capture()
    const { log: prettyLog, lines: prettyLines } = capture({ format: 'pretty' })
    fc.assert(
      fc.property(plain, (text) => {
        lines.length = prettyLines.length = 0
        log.info('x', { text })
        prettyLog.info('x', { text })
        expect(parsed(lines[0])['text']).toBe(text.toWellFormed())
        expect(lines.join('').match(/\n/g)).toHaveLength(1)
        expect(prettyLines.join('').trimEnd()).not.toMatch(/[\p{Cc}\u2028\u2029]/u)
      }),
    )
  })

  test('pretty is for people: time, level and message first, in one line', () => {
    const { log, lines } = capture({ format: 'pretty' })
    log.warn('token rejected', { retryInMs: 1000 })
    expect(lines).toEqual([
      '[2026-01-02T03:04:05.678Z] WARN: token rejected {"instance":"reconciler-0","retryInMs":1000}\n',
    ])
  })

  test('colours only when asked for', () => {
    const { log, lines } = capture({ format: 'pretty', colour: true })
    log.warn('x')
    expect(lines[0]).toContain('\u001b[33mWARN')
  })
})

describe('where lines go', () => {
  test('a stream is as good as a function', () => {
    const written: string[] = []
    const { log } = capture({ write: { write: (line: string) => written.push(line) } })
    log.info('x')
    expect(written).toHaveLength(1)
  })

  test('a log that can not be written does not stop the work', () => {
    let tries = 0
    const { log } = capture({
      write() {
        tries += 1
        throw new Error('EPIPE')
      },
    })
    expect(() => {
      log.info('x')
      log.info('y')
    }).not.toThrow()
    expect(tries).toBe(2)
  })

  test('a file descriptor has the line before the call returns', () => {
    const folder = mkdtempSync(join(tmpdir(), 'log-'))
    const path = join(folder, 'log')
    const fd = openSync(path, 'w')
    const { log } = capture({ write: fileDescriptorSink(fd) })
    log.info('x')
    expect(readFileSync(path, 'utf8')).toMatch(/"msg":"x"\}\n$/)
    closeSync(fd)
    rmSync(folder, { recursive: true })
  })

  test('a reader that went away is passed over', () => {
    const script = `
      import { createLogger, fileDescriptorSink } from ${JSON.stringify(join(import.meta.dirname, '../../../src/observe/logger.ts'))}
      const clock = { now: () => 0, monotonic: () => 0, sleep: async () => {} }
      const log = createLogger({ level: 'info', format: 'json', instance: 'i', clock, write: fileDescriptorSink(1) })
      for (let n = 0; n < 20000; n += 1) log.info('x', { text: 'y'.repeat(100) })
      process.exitCode = 42`
    const command = `"${process.execPath}" --input-type=module -e "$SCRIPT" | head -n 1; echo "\${PIPESTATUS[0]}"`
    const { stdout } = spawnSync('bash', ['-c', command], { env: { ...process.env, SCRIPT: script }, encoding: 'utf8' })
    expect(stdout.trim().split('\n').at(-1)).toBe('42')
  })

  test('pino-pretty is loaded only for pretty', () => {
    const script = `
      import { createRequire } from 'node:module'
      import { createLogger } from ${JSON.stringify(join(import.meta.dirname, '../../../src/observe/logger.ts'))}
      const clock = { now: () => 0, monotonic: () => 0, sleep: async () => {} }
      const loaded = () => Object.keys(createRequire(import.meta.url).cache).some((path) => path.includes('pino-pretty'))
      const make = (format) => { createLogger({ level: 'info', format, instance: 'i', clock, write: () => {} }); return loaded() }
      process.stdout.write([make('json'), make('pretty')].join())`
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
    expect({ stdout, stderr }).toEqual({ stdout: 'false,true', stderr: '' })
  })
})
