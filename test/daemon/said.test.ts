// What is said in an incident: the headline, what it stands on, and the end, minutes after it began; as page and `status` have them.
import { expect, test } from 'vitest'
import type { ReadingsInput } from '../../sandbox/options.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { doneOf } from '../../src/ops/figures.ts'
import type { Level } from '../../src/ops/status-document.ts'
import { startDaemon } from '../support/daemon.ts'
import { startPlatform } from '../support/platform.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const [minuteMs, hourMs] = [60_000, 3_600_000]
const subscriptions = ['1', '2', '3'].map((digit) => `${digit.repeat(8)}-1111-4111-8111-111111111111`)
const eventTypes = ['outgoing-transfer-completed', 'incoming-transfer-completed', 'account-activated']

interface Incident {
  begin: (sandbox: Sandbox) => void
  records?: number
  timeZone?: string
  readings?: ReadingsInput
  /** Minutes after its beginning: the level, the headline, its detail, and the end. */
  said: readonly (readonly [minutes: number, level: Level, headline: string, detail: RegExp, end: RegExp])[]
}

const matching = (pattern: RegExp): string => expect.stringMatching(pattern) as string

const fails = (operation: 'any' | 'retry', status: number) => (sandbox: Sandbox) => {
  sandbox.faults.set({ operation, fault: { kind: 'status', status } })
}

const incidents: Readonly<Record<string, Incident>> = {
  'a dead receiver': {
    begin: ({ receiver }) => {
      receiver.down()
    },
    said: [
      [
        3,
        'trouble',
        'The receiver is failing (no response) for 3 subscriptions: 600 deliveries wait.',
        /^It cannot be reached.* 45 of 45 retries failed again, since .* Next probe in/,
        /^Unknown: 600 deliveries wait for 3 subscriptions\.$/,
      ],
    ],
  },
  'a permission that was withdrawn': {
    begin: fails('retry', 403),
    said: [
      [
        3,
        'trouble',
        'The platform rejects retries. 600 deliveries are missing.',
        /^The last retry: HTTP 403 \(sandbox\.fault: A fault of the sandbox\)\. Listing works\. Since /,
        /^Unknown: Retries are blocked\.$/,
      ],
    ],
  },
  'a gateway that answers retries': {
    begin: (sandbox) => {
      sandbox.faults.set({ operation: 'retry', fault: { kind: 'status', status: 405, body: 'html' } })
    },
    said: [
      [
        3,
        'trouble',
        'Retries do not reach the platform. 600 deliveries are missing.',
        /^The last retry: HTTP 405 from something in front of the platform\. Listing works\. Since /,
        /^Unknown: Retries are blocked\.$/,
      ],
    ],
  },
  'a platform that fails': {
    begin: fails('any', 503),
    said: [
      [
        3,
        'trouble',
        'The platform cannot be listed: HTTP 503 (sandbox.fault: A fault of the sandbox). No missing delivery was known at 12:09:30 UTC.',
        /^No full sweep has succeeded since 12:09:30 UTC, 3 min ago: newer failures are not known\.$/,
        /^Unknown: Sweeps fail\.$/,
      ],
    ],
  },
  'a wrong time zone': {
    begin: () => undefined,
    timeZone: 'Europe/Riga',
    said: [
      [
        20,
        'trouble',
        "platform.timeZone (UTC) is wrong: the platform's times are 2 h ahead of it. No missing delivery is known.",
        /^Failures of the last 2 h are not seen yet\. Event times are 2 h off\.$/,
        /^Unknown: Fix platform\.timeZone and restart the daemon first\.$/,
      ],
    ],
  },
  'very many at once': {
    begin: () => undefined,
    records: 4500,
    said: [
      [
        3,
        'working',
        matching(/^Retries are under way\. 1,\d{3} deliveries are missing\.$/),
        /^Deliveries now arrive: 1,\d{3} a minute\.$/,
        /^in \d min: about .*, at this pace$/,
      ],
      [8, 'well', 'Nothing is missing.', /^$/, /^Now: Everything has arrived\.$/],
    ],
  },
}

test.each(Object.entries(incidents))('%s', async (_, { begin, records = 600, said, timeZone = 'UTC' }) => {
  const clock = createVirtualClock()
  const delivery = { mode: 'async', delayMs: 300 } as const
  await using sandbox = await startPlatform({ inProcess: true, clock, delivery, timeZone })
  const env = { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20', RECONCILER_PLATFORM_TIME_ZONE: 'UTC' }
  await using daemon = startDaemon({ clock, sandbox, env })
  async function goOn(minutes: number): Promise<void> {
    for (let tick = 0; tick < 2 * minutes; tick += 1) {
      await clock.advance(minuteMs / 2)
      daemon.tick()
    }
  }

  await goOn(10)
  begin(sandbox)
  const now = clock.now()
  const result = { lastAttemptErrorMessage: 'Connection reset' }
  const times = { from: now - 5 * hourMs, to: now - 4 * minuteMs }
  sandbox.seed({ ...times, count: records, subscriptions, eventTypes, attempts: 1, result })
  let passed = 0
  for (const [minutes, level, headline, detail, end] of said) {
    await goOn(minutes - passed)
    passed = minutes
    const status = daemon.ops().status()
    expect(status.summary.level).toBe(level)
    expect(status.summary.headline).toEqual(headline)
    expect(status.summary.detail).toMatch(detail)
    expect(doneOf(status).join(': ')).toMatch(end)
  }
})
