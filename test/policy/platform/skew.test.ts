// What is learned of the server's clock: exact where it can be, slow to believe what is odd, quick to follow what is true.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSkew, skewMovedMs, skewOfSample, type SkewSample } from '../../../src/platform/skew.ts'

const start = Date.UTC(2026, 0, 15, 12)

/** The answer of a server whose clock is `skew` ms ahead of the host, that wrote its Date `at` (host time). */
function answer(at: number, skew: number, { before = 20, after = 20 } = {}): SkewSample {
  return {
    dateHeader: new Date(at + skew).toUTCString(),
    hasAge: false,
    sentAt: at - before,
    receivedAt: at + after,
  }
}

function learned(...samples: SkewSample[]): ReturnType<typeof createSkew> {
  const skew = createSkew()
  for (const sample of samples) skew.learn(sample)
  return skew
}

describe('one answer', () => {
  test('gives the interval of the design: the cut-off second plus the way there and back', () => {
    const sample = { dateHeader: 'Thu, 15 Jan 2026 12:00:05 GMT', hasAge: false, sentAt: start, receivedAt: start + 80 }
    expect(skewOfSample(sample)).toEqual([4_920, 6_000])
  })

  test.each([
    ['none', undefined],
    ['empty', ''],
    ['a word', 'yesterday'],
    ['ISO 8601', '2026-01-15T12:00:00Z'],
    ['without a zone', 'Thu Jan 15 12:00:00 2026'],
    ['RFC 850', 'Thursday, 15-Jan-26 12:00:00 GMT'],
    ['another zone', 'Thu, 15 Jan 2026 12:00:00 +0100'],
    ['a leap second', 'Thu, 15 Jan 2026 23:59:60 GMT'],
    ['no such day', 'Tue, 31 Feb 2026 12:00:00 GMT'],
    ['Invalid Date', 'Invalid Date'],
    ['no such month', 'Thu, 15 Foo 2026 12:00:00 GMT'],
    ['a number', '1768478400'],
    ['two dates', 'Thu, 15 Jan 2026 12:00:00 GMT, Thu, 15 Jan 2026 12:00:00 GMT'],
  ])('with a Date header that is %s says nothing', (_, dateHeader) => {
    expect(learned({ ...answer(start, 0), dateHeader }).interval()).toBeUndefined()
  })

  test('from a cache says nothing', () => {
    expect(learned({ ...answer(start, 0), hasAge: true }).interval()).toBeUndefined()
  })

  test.each([
    ['the host clock was set back during it', { sentAt: start + 60_000, receivedAt: start }],
    ['its times are no numbers', { sentAt: Number.NaN, receivedAt: Number.NaN }],
  ])('says nothing when %s', (_, times) => {
    expect(learned({ ...answer(start, 0), ...times }).interval()).toBeUndefined()
  })
})

describe('how far the skew was moved', () => {
  test.each([
    [undefined, undefined, 0],
    [undefined, [-5_000, 1_000], 0],
    [undefined, [3_000, 4_000], 3_500],
    [[0, 900], [100, 200], 0],
    [[0, 900], [900, 1_900], 0],
    [[0, 900], [-2_000, -1_000], 1_950],
    [[0, 900], undefined, 0],
  ] as const)('from %j to %j: %s ms', (before, after, expected) => {
    expect(skewMovedMs(before, after)).toBe(expected)
  })
})

describe('many answers', () => {
  test('nothing is known at first', () => {
    const skew = createSkew()
    expect(skew.interval()).toBeUndefined()
    expect(skew.estimate()).toBe(0)
  })

  test.each([0, 40, -40, 5_000, -3_600_000, 86_400_000 * 365])(
    'the first answer is believed at once: %s ms',
    (true_) => {
      const skew = learned(answer(start + 300, true_))
      expect(Math.abs(skew.estimate() - true_)).toBeLessThanOrEqual(520)
    },
  )

  test('are intersected: answers at different parts of the second make it exact', () => {
    const parts = [0, 130, 260, 390, 520, 650, 780, 910].map((part, i) => start + i * 2_000 + part)
    const [earliest, latest] = learned(...parts.map((at) => answer(at, 777))).interval() ?? [NaN, NaN]
    expect(earliest).toBeLessThanOrEqual(777)
    expect(latest).toBeGreaterThanOrEqual(777)
    expect(latest - earliest).toBeLessThan(200)
  })

  test('a small change is believed at once', () => {
    const skew = learned(answer(start, 0), answer(start + 10_000, 30_000))
    expect(Math.abs(skew.estimate() - 30_000)).toBeLessThanOrEqual(520)
  })

  test.each([3_600_000, -3_600_000, 63_000, -63_000])(
    'a jump of %s ms is believed after three answers that agree',
    (jump) => {
      const skew = learned(answer(start, 0))
      skew.learn(answer(start + 1_000, jump))
      skew.learn(answer(start + 2_000, jump))
      expect(Math.abs(skew.estimate())).toBeLessThanOrEqual(520)
      skew.learn(answer(start + 3_000, jump))
      expect(Math.abs(skew.estimate() - jump)).toBeLessThanOrEqual(520)
    },
  )

  test('a jump that the host’s own clock shows too is believed at once: the process was suspended', () => {
    let ahead = 0
    const skew = createSkew(() => ahead)
    skew.learn(answer(start, 0))
    ahead = 3_600_000
    skew.learn(answer(start + 1_000, 3_600_000))
    expect(Math.abs(skew.estimate() - 3_600_000)).toBeLessThanOrEqual(520)
    // One that it does not show still needs three answers.
    skew.learn(answer(start + 2_000, 7_200_000))
    expect(Math.abs(skew.estimate() - 3_600_000)).toBeLessThanOrEqual(520)
  })

  test('far answers that do not agree with each other are never believed', () => {
    const skew = learned(answer(start, 0))
    for (let i = 1; i <= 50; i++) skew.learn(answer(start + i * 1_000, 100_000 * i))
    expect(Math.abs(skew.estimate())).toBeLessThanOrEqual(520)
  })

  test('an answer that agrees with what is known ends the doubt', () => {
    const far = (i: number): SkewSample => answer(start + i * 1_000, 600_000)
    const skew = learned(answer(start, 0), far(1), far(2), answer(start + 3_000, 0), far(4), far(5))
    expect(Math.abs(skew.estimate())).toBeLessThanOrEqual(520)
  })

  test('a cache that hides its Age and repeats one Date is not believed over a minute', () => {
    const skew = learned(answer(start, 0))
    const stale = new Date(start - 600_000).toUTCString()
    for (let i = 1; i <= 20; i++) skew.learn({ ...answer(start + i * 5_000, 0), dateHeader: stale })
    expect(Math.abs(skew.estimate())).toBeLessThanOrEqual(520)
  })

  test('a host clock that is set by an hour is found out', () => {
    const skew = learned(answer(start, 200))
    const set = start + 3_600_000
    for (let i = 1; i <= 3; i++) skew.learn(answer(set + i * 500, 200 - 3_600_000))
    expect(Math.abs(skew.estimate() - (200 - 3_600_000))).toBeLessThanOrEqual(520)
  })

  test('a slow drift is followed', () => {
    const skew = createSkew()
    for (let minute = 0; minute < 600; minute++) {
      const at = start + minute * 60_137
      const drifted = minute * 60_137 * 50e-6
      skew.learn(answer(at, drifted))
      const [earliest, latest] = skew.interval() ?? [NaN, NaN]
      expect(earliest).toBeLessThanOrEqual(drifted)
      expect(latest).toBeGreaterThanOrEqual(drifted)
    }
  })

  test('a steady skew always lies in the interval, however slow and uneven the network', () => {
    const exchange = fc.record({
      gap: fc.integer({ min: 0, max: 600_000 }),
      before: fc.integer({ min: 0, max: 30_000 }),
      after: fc.integer({ min: 0, max: 30_000 }),
    })
    fc.assert(
      fc.property(fc.integer({ min: -1e9, max: 1e9 }), fc.array(exchange, { minLength: 1 }), (steady, exchanges) => {
        const skew = createSkew()
        let at = start
        for (const { gap, before, after } of exchanges) {
          at += gap
          skew.learn(answer(at, steady, { before, after }))
          const [earliest, latest] = skew.interval() ?? [NaN, NaN]
          expect(earliest).toBeLessThanOrEqual(steady)
          expect(latest).toBeGreaterThan(steady)
        }
      }),
    )
  })
})
