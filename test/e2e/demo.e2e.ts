// The quick start as a new user runs it, piped: plain lines, equal books, and nothing left behind.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { get, patience, startProgram } from '../support/process.ts'

/** The whole demo, on a busy machine. */
const demoMs = 90_000

test(
  'ends with equal books and 0; with --keep it stays up until it is told to stop',
  async () => {
    await using demo = startProgram(['--keep'], { script: join(import.meta.dirname, '../../sandbox/demo/main.ts') })
    await expect.poll(() => demo.stdout(), { ...patience, timeout: demoMs }).toContain('Still up')
    const out = demo.stdout()
    expect(out).toContain('daemon: 451 recovered · platform: 451 successful · EQUAL\n')
    const down = Number(/deliveries into the receiver while it was down: (\d+), with 463 due\n/.exec(out)?.[1])
    // Two subscriptions: at most nine deliveries into each.
    expect(down).toBeGreaterThanOrEqual(5)
    expect(down).toBeLessThanOrEqual(2 * 9)
    expect(out).toContain(`failed again: ${down} by the daemon's books, ${down} by the platform's\n`)
    expect(out).toContain('delivered twice: 0 ')
    expect(out).toContain('RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND=60')
    expect(out).toContain('RECONCILER_CIRCUIT_COOLDOWN=5s')
    // In this order: the circuit opens into a receiver that is down, which comes up meanwhile, and all goes on slowly.
    const story = [
      'circuit open: ',
      'the receiver is up again',
      'circuit half-open: ',
      'circuit closed: ',
      ' recovered · ',
    ]
    expect(story.map((text) => out.indexOf(text))).toEqual(story.map((text) => out.indexOf(text)).sort((x, y) => x - y))
    expect(story.filter((text) => !out.includes(text))).toEqual([])
    expect(out).toMatch(/ \d+ of 463 done · \d+ awaited · circuit open, [\d.]+ s to go\n/)
    // Piped: no line is written over itself.
    expect(out).not.toMatch(/[\r\u001b]/)

    const metricsUrl = /http:\S+\/metrics/.exec(out)?.[0] ?? ''
    const { body } = await get(metricsUrl)
    expect(body).toContain('webhook_reconciler_outcomes_total{outcome="recovered"} 451\n')
    const logFile = /its log is in (\S+);/.exec(out)?.[1] ?? ''
    expect(existsSync(join(dirname(logFile), 'keys', 'private-key.pem'))).toBe(true)

    demo.kill('SIGTERM')
    expect(await demo.ended()).toMatchObject({ code: 0, stderr: '' })
    // All went well, so nobody needs the log.
    expect(existsSync(dirname(logFile))).toBe(false)
  },
  demoMs + 30_000,
)
