// The quick start as a new user runs it, piped: plain lines, equal books, and nothing left behind but the log.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { get, patience, startProgram } from '../support/process.ts'

/** The whole demo, on a busy machine. */
const demoMs = 90_000

test(
  'ends with equal books and 0; with --keep it stays up until it is told to stop',
  async () => {
    await using demo = startProgram(['demo', '--keep'])
    await expect.poll(() => demo.stdout(), { ...patience, timeout: demoMs }).toContain('Still up')
    const out = demo.stdout()
    expect(out).toContain('daemon: 451 accepted · platform: 451 successful · EQUAL\n')
    expect(out).toContain('records touched twice: 0')
    expect(out).toContain('RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND=60')
    expect(out).toMatch(/ 0 of 463 done| \d+ of 463 done, \d+ open, 25 parked\n/)
    // Piped: no line is written over itself.
    expect(out).not.toMatch(/[\r\u001b]/)

    const metricsUrl = /http:\S+\/metrics/.exec(out)?.[0] ?? ''
    const { body } = await get(metricsUrl)
    expect(body).toContain('webhook_reconciler_retries_total{result="accepted"} 451\n')
    const logFile = /its log is in (\S+);/.exec(out)?.[1] ?? ''
    expect(existsSync(join(dirname(logFile), 'keys', 'private-key.pem'))).toBe(true)

    demo.kill('SIGTERM')
    expect(await demo.ended()).toMatchObject({ code: 0, stderr: '' })
    expect(existsSync(join(dirname(logFile), 'keys'))).toBe(false)
    expect(readFileSync(logFile, 'utf8')).toContain('"msg":"stopped"')
  },
  demoMs + 30_000,
)
