// What one look is evidence of, given what was listed before the retry, answered to it, and seen since.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { evidenceOf, watch, type Evidence, type Watched } from '../../../src/reconcile/awaited.ts'
import { awaitedOf, hourMs, minuteMs, patchedAt, testNow } from '../../support/backlog.ts'

const [t0, t1, t2] = [testNow - hourMs, testNow + 20, testNow + 3000]

type Shown = Pick<WebhookRecord, 'status' | 'attempts' | 'lastAttemptLocal'>
const failed = (attempts: number, lastAttemptLocal: number | null): Shown => ({
  status: 'failed',
  attempts,
  lastAttemptLocal,
})
const processing = (attempts: number, at: number | null): Shown => ({ ...failed(attempts, at), status: 'processing' })
const successful = (attempts: number, at: number | null): Shown => ({ ...failed(attempts, at), status: 'successful' })

/** What was learned before the look; the answer came at `patchedAt`. */
type Earlier = Partial<Omit<Watched, 'listed'>>
const nothing: Earlier = {}
const told = (answered: Shown): Earlier => ({ answered, wasProcessing: answered.status === 'processing' })
const doubted = ({ attempts, lastAttemptLocal }: Shown, since = patchedAt): Earlier => ({
  doubt: { attempts, lastAttemptLocal, since },
})

function evidence(listed: Shown, earlier: Earlier, shown: Shown, askedAt: number): Evidence {
  const awaited = awaitedOf({ id: '', subscriptionId: '' }, { listed, ...earlier })
  return evidenceOf(awaited, shown, askedAt, 2000)
}

const listed = failed(1, t0)
const longAfter = patchedAt + minuteMs
const soonAfter = patchedAt + 500

describe('what a look tells', () => {
  /** [what it is, as listed, what was learned since, as seen, asked for at, evidence] */
  const cases: [string, Shown, Earlier, Shown, number, Evidence][] = [
    ['successful', listed, nothing, successful(1, t0), soonAfter, 'recovered'],
    ['successful, by the same numbers', listed, told(listed), successful(1, t0), soonAfter, 'recovered'],
    ['successful, after a doubt', listed, doubted(failed(2, t1)), successful(2, t1), soonAfter, 'recovered'],
    ['processing', listed, nothing, processing(2, t1), soonAfter, 'processing'],
    ['processing, after a doubt', listed, doubted(failed(2, t1)), processing(2, t1), longAfter, 'processing'],
    ['a status that nobody knows', listed, nothing, { ...failed(2, t1), status: 'other' }, longAfter, 'unchanged'],
    ['failed as it was', listed, nothing, listed, longAfter, 'unchanged'],
    ['failed as it was, and as answered', listed, told(listed), listed, longAfter, 'unchanged'],
    ['fewer attempts, an earlier time', failed(7, t0), nothing, failed(1, t0 - 1), longAfter, 'unchanged'],
    ['none is shown any more', listed, nothing, failed(1, null), longAfter, 'unchanged'],
    ['a server that lags far behind', listed, told(processing(2, t1)), listed, longAfter, 'unchanged'],
  ]

  test.each(cases)('%s', (_, before, earlier, shown, askedAt, expected) => {
    expect(evidence(before, earlier, shown, askedAt)).toBe(expected)
  })
})

describe('a new attempt that is shown as failed, of a record that was seen to be processing', () => {
  test.each<[string, Shown, Shown, Shown]>([
    ['counted and stamped at the end', listed, processing(1, t0), failed(2, t1)],
    ['no word of times', failed(1, null), processing(1, null), failed(2, null)],
    ['only the time is kept up', listed, processing(1, t0), failed(1, t1)],
    ['only the count is kept up', listed, processing(1, t0), failed(2, t0)],
    ['the count began anew, the time is later', failed(7, t0), processing(7, t0), failed(1, t1)],
    ['more attempts, an earlier time', listed, processing(1, t0), failed(2, t0 - 1)],
    ['no attempt was shown before', failed(0, null), processing(0, null), failed(0, t1)],
    ['none is shown, but one more counted', listed, processing(1, t0), failed(2, null)],
    ['counted at the beginning, stamped at the end', listed, processing(2, t1), failed(2, t2)],
    ['counted at both ends', listed, processing(2, t1), failed(3, t2)],
  ])('%s: counts at once', (_, before, answered, shown) => {
    expect(evidence(before, told(answered), shown, soonAfter)).toBe('failed-again')
  })

  test('by a look, where the answer told nothing: counts at once', () => {
    expect(evidence(listed, { wasProcessing: true }, failed(2, t1), soonAfter)).toBe('failed-again')
  })

  test.each([
    ['the same numbers as answered', processing(2, t1), failed(2, t1)],
    ['somebody else just before us', processing(3, t1), failed(2, t1 - 9)],
  ])('%s, perhaps by a server that lags: counts two seconds after the answer', (_, answered, shown) => {
    for (const afterMs of [-1, 0, 500, 1999]) {
      expect(evidence(listed, told(answered), shown, patchedAt + afterMs)).toBe('doubtful')
    }
    expect(evidence(listed, told(answered), shown, patchedAt + 2000)).toBe('failed-again')
  })
})

describe('a new attempt that is shown as failed, of a record that nobody saw processing', () => {
  const shown = failed(2, t1)

  test.each<[string, Shown, Earlier, Shown]>([
    ['no answer showed it', listed, nothing, shown],
    ['by the count alone', failed(1, null), nothing, failed(2, null)],
    ['by the time alone', listed, nothing, failed(1, t1)],
    ['the first attempt ever', failed(0, null), nothing, failed(0, t1)],
    ['the answer showed it as it was', listed, told(listed), shown],
    ['the answer showed it failed already', listed, told(shown), shown],
    ['the answer showed something else', listed, told({ ...shown, status: 'other' }), shown],
    ['another one was doubted', listed, doubted(failed(2, t1 - 9)), shown],
    ['one more was counted since', listed, doubted(shown), failed(3, t1)],
    ['one of another count was doubted', listed, doubted(failed(3, t1)), shown],
  ])('%s: one look is not enough, however late it comes', (_, before, earlier, seen) => {
    for (const askedAt of [patchedAt - 1, soonAfter, longAfter]) {
      expect(evidence(before, earlier, seen, askedAt)).toBe('doubtful')
    }
  })

  test.each([
    ['by the answer', { ...told(shown), ...doubted(shown) }, patchedAt],
    ['by a look', doubted(shown, soonAfter), soonAfter],
    ['by a look long after', { ...told(listed), ...doubted(shown, longAfter) }, longAfter],
  ])('that was doubted %s counts when it is the same two seconds later', (_, earlier, since) => {
    for (const askedAt of [since - 1, since, since + 1999]) {
      expect(evidence(listed, earlier, shown, askedAt)).toBe('doubtful')
    }
    expect(evidence(listed, earlier, shown, since + 2000)).toBe('failed-again')
  })
})

describe('what is remembered of looks', () => {
  const shown = failed(2, t1)
  const fresh = (): ReturnType<typeof awaitedOf> => awaitedOf({ id: '', subscriptionId: '' }, { listed })

  test('a doubt lasts from the first look that showed it, until another shows something else', () => {
    const awaited = fresh()
    watch(awaited, 'doubtful', shown, 100)
    watch(awaited, 'doubtful', shown, 900)
    expect(awaited.doubt).toEqual({ attempts: 2, lastAttemptLocal: t1, since: 100 })
    watch(awaited, 'doubtful', failed(2, t2), 1000)
    expect(awaited.doubt).toEqual({ attempts: 2, lastAttemptLocal: t2, since: 1000 })
    watch(awaited, 'doubtful', failed(3, t2), 1100)
    expect(awaited.doubt).toEqual({ attempts: 3, lastAttemptLocal: t2, since: 1100 })
  })

  test.each(['unchanged', 'processing'] as const)('it ends with a look that shows it %s', (now) => {
    const awaited = fresh()
    watch(awaited, 'doubtful', shown, 100)
    watch(awaited, now, listed, 200)
    expect(awaited.doubt).toBeUndefined()
    watch(awaited, 'doubtful', shown, 900)
    expect(awaited.doubt).toMatchObject({ since: 900 })
  })

  test('that it was processing is never forgotten', () => {
    const awaited = fresh()
    watch(awaited, 'unchanged', listed, 100)
    watch(awaited, 'doubtful', shown, 200)
    expect(awaited.wasProcessing).toBe(false)
    watch(awaited, 'processing', processing(2, t1), 300)
    for (const now of ['unchanged', 'doubtful'] as const) watch(awaited, now, shown, 400)
    expect(awaited.wasProcessing).toBe(true)
  })
})

const shownAs = fc.record({
  status: fc.constantFrom('failed' as const, 'other' as const, 'processing' as const),
  attempts: fc.nat(40),
  lastAttemptLocal: fc.option(fc.integer({ min: t0, max: t1 })),
})

test('what was shown before the PATCH is never evidence, whatever came between', () => {
  const stands = shownAs.filter(({ status }) => status !== 'processing')
  const looks = fc.array(fc.tuple(shownAs, fc.nat(hourMs)), { maxLength: 4 })
  fc.assert(
    fc.property(
      stands,
      fc.option(shownAs, { nil: undefined }),
      looks,
      fc.nat(hourMs),
      (before, answered, between, after) => {
        const awaited = awaitedOf({ id: '', subscriptionId: '' }, { listed: before, answered })
        for (const [shown, at] of between) watch(awaited, evidenceOf(awaited, shown, at, 2000), shown, at)
        expect(evidenceOf(awaited, before, after, 2000)).toBe('unchanged')
      },
    ),
  )
})

test('nothing is evidence of a failure before two looks two seconds apart, or one at something that was processing', () => {
  const looks = fc.array(fc.tuple(shownAs, fc.nat(1999)), { minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(shownAs, looks, (before, all) => {
      const awaited = awaitedOf({ id: '', subscriptionId: '' }, { listed: before })
      for (const [shown, afterMs] of all) {
        const found = evidenceOf(awaited, shown, patchedAt + afterMs, 2000)
        expect(found === 'failed-again' && !awaited.wasProcessing).toBe(false)
        watch(awaited, found, shown, patchedAt + afterMs)
      }
    }),
  )
})
