// The quick start as a new user runs it, piped: the daemon's own lines, equal counts, and nothing left behind.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { get, makeFolder, runProgram, startProgram } from '../support/process.ts'

const script = join(import.meta.dirname, '../../sandbox/demo.ts')

test('has a help', async () => {
  expect(await runProgram(['--help'], { script })).toMatchObject({
    ...{ code: 0, stderr: '' },
    stdout: expect.stringContaining('--keep') as string,
  })
})

test('ends with equal counts and 0; with --keep it stays up until it is stopped', async () => {
  await using folder = await makeFolder()
  await using demo = startProgram(['--keep'], { script, env: { TMPDIR: folder.path } })
  await expect.poll(() => demo.stdout()).toContain('still up')
  const pageUrl = /still up: (http:\S+\/) /.exec(demo.stdout())?.[1] ?? ''
  const { body } = await get(`${pageUrl}metrics`)
  expect(body).toContain('webhook_reconciler_outcomes_total{outcome="recovered"} 450\n')

  demo.kill('SIGTERM')
  const { code, stderr, stdout: out } = await demo.ended()
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(out).toContain("recovered: 450 by the daemon's count, 450 by the platform's: EQUAL\n")
  const down = Number(/while it was down: (\d+) of 450\n/.exec(out)?.[1])
  // Two subscriptions: at most nine deliveries into each.
  expect(down).toBeGreaterThanOrEqual(5)
  expect(down).toBeLessThanOrEqual(2 * 9)
  expect(out).toContain('delivered twice: 0; left alone at their limit of attempts: 25\n')
  expect(out).toMatch(
    /compared with the ledger in [\d.]+ s: EQUAL\n +delivered and processed +450\n +delivered, not processed +0\n/,
  )
  // In this order: the circuit opens into a receiver that is down, which comes up, and the circuit closes.
  const story = [
    ...['daemon started', 'circuit opened', 'the receiver is up again', 'circuit closed'],
    ...['the daemon names webhook', 'webhook-reconciler payload', 'recovered: '],
  ]
  expect(story.filter((text) => !out.includes(text))).toEqual([])
  expect(story.map((text) => out.indexOf(text))).toEqual(story.map((text) => out.indexOf(text)).sort((x, y) => x - y))
  // No value is cut, and an id has the eight digits of the status page.
  expect(out).not.toMatch(/="[^"]*$|subscriptionId="[^"]{9}/m)
  // Piped: no line is written over itself.
  expect(out).not.toMatch(/[\r\u001b]/)
  // Its key and folder are gone.
  expect(readdirSync(folder.path)).toEqual([])
})
