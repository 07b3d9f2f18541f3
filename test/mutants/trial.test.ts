// The program's own logic: what counts as a catch, which sample is drawn, and when the program fails.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { layers, type Layer } from './layers.ts'
import type { Mutant } from './mutant.ts'
import { formatRecords, recorded, type Records } from './record.ts'
import { belowTarget, line, lost, shareOf, shares, table } from './report.ts'
import { drawSample } from './sample.ts'
import {
  caughtIn,
  isFinished,
  layersFor,
  settled,
  tryMutant,
  type Failure,
  type Outcome,
  type RunEnd,
  type Trial,
  type Tried,
} from './trial.ts'

function mutantOf(id: string, more: Partial<Mutant> = {}): Mutant {
  return { id, file: 'reconcile/x.ts', text: 'a', replacement: 'b', breaks: 'errs', origin: 'review', ...more }
}

const passed: Outcome = { end: 'passed' }
const failed: Outcome = { end: 'failed', by: 'x.test.ts: holds' }
const hung: Outcome = { end: 'hung' }
const stopped: Outcome = { end: 'stopped' }

function triedIn(layer: string, outcome: Outcome): Tried {
  return { layer, outcome, seconds: 2 }
}

const names = ['daemon', 'simulation', 'contract']
const three: Layer[] = layers.filter(({ name }) => names.includes(name))

/** Tries a mutant whose layers end so, in their order. */
function tryWith(outcomes: readonly Outcome[], allLayers = false): Promise<Trial> {
  const ends = outcomes.values()
  let now = 0
  return tryMutant(mutantOf('T01'), {
    layers: three,
    allLayers,
    run: () => Promise.resolve(ends.next().value ?? passed),
    now: () => (now += 500),
  })
}

describe('trying a mutant', () => {
  test.each([
    ['the first layer that fails is the last one', [failed], false, ['daemon']],
    ['a layer that passes lets the next one try', [passed, failed], false, ['daemon', 'simulation']],
    ['a hang ends it like a failure', [passed, hung], false, ['daemon', 'simulation']],
    ['with all layers, those behind a catch try too', [failed, passed, hung], true, names],
    ['a stop ends it no matter what was asked for', [passed, stopped], true, ['daemon', 'simulation']],
  ])('%s', async (_, outcomes, allLayers, ran) => {
    const { tried } = await tryWith(outcomes, allLayers)
    expect(tried.map(({ layer }) => layer)).toEqual(ran)
    expect(tried.map(({ outcome }) => outcome)).toEqual(outcomes)
  })

  test.each([
    ['a failure catches it', [failed], 'daemon'],
    ['a hang catches it', [passed, hung], 'simulation'],
    ['the first catch counts', [passed, failed, hung], 'simulation'],
    ['what passes everywhere survives', [passed, passed, passed], undefined],
  ])('%s', async (_, outcomes, layer) => {
    const trial = await tryWith(outcomes, true)
    expect(caughtIn(trial)?.layer).toBe(layer)
    expect(isFinished(trial)).toBe(true)
  })

  test('a trial that was stopped neither survives nor is caught', async () => {
    const trial = await tryWith([passed, stopped])
    expect(caughtIn(trial)).toBeUndefined()
    expect(isFinished(trial)).toBe(false)
    expect(isFinished({ mutant: mutantOf('T01'), tried: [] })).toBe(false)
  })

  test('the time of each layer is reported', async () => {
    const { tried } = await tryWith([passed, failed])
    expect(tried.map(({ seconds }) => seconds)).toEqual([0.5, 0.5])
  })

  test.each([
    ['cheapest first', {}, undefined, ['daemon', 'simulation', 'contract']],
    ['the one that caught it before first', {}, 'contract', ['contract', 'daemon', 'simulation']],
    [
      'the simulation first for its invariants',
      { invariant: 'waits' as const },
      'contract',
      ['simulation', 'daemon', 'contract'],
    ],
  ])('layers come %s', (_, more, first, order) => {
    expect(layersFor(mutantOf('T01', more), three, first).map(({ name }) => name)).toEqual(order)
  })
})

describe('a failure where real sockets and times take part', () => {
  const one = (test?: string): Failure => ({ file: 'x', test, by: `x: ${test ?? 'broken'}` })
  const fails = (first: Failure, ...others: Failure[]): RunEnd => ({ end: 'failed', failures: [first, ...others] })
  const passes: RunEnd = { end: 'passed' }

  interface Settling {
    outcome: Outcome
    ran: string[]
    told: string[]
  }

  /** Lets the runs end so, in their order; one more is an error. */
  async function settle(...ends: RunEnd[]): Promise<Settling> {
    const [left, ran, told] = [ends.values(), [] as string[], [] as string[]]
    const next = (what: string): Promise<RunEnd> => {
      ran.push(what)
      const { value } = left.next()
      return value === undefined ? Promise.reject(new Error('it was run too often')) : Promise.resolve(value)
    }
    const outcome = await settled({ all: next, again: ({ test }) => next(test ?? '') }, (by) => told.push(by))
    return { outcome, ran, told }
  }

  test('counts when it comes again', async () => {
    const settling = await settle(fails(one('y')), fails(one('y')))
    expect(settling).toEqual({ outcome: { end: 'failed', by: 'x: y' }, ran: ['first failure', 'y'], told: [] })
  })

  test('that does not come again is reported, and hides none of those behind it', async () => {
    const settling = await settle(fails(one('y')), passes, fails(one('y'), one('z')), passes, fails(one('z')))
    const ran = ['first failure', 'y', 'end', 'y', 'z']
    expect(settling).toEqual({ outcome: { end: 'failed', by: 'x: z' }, ran, told: ['x: y', 'x: y'] })
  })

  test('is chance when none of them comes again', async () => {
    const settling = await settle(fails(one('y')), passes, fails(one('z')), passes)
    expect(settling).toEqual({ outcome: passed, ran: ['first failure', 'y', 'end', 'z'], told: ['x: y', 'x: z'] })
  })

  test.each<[string, RunEnd[], Outcome['end']]>([
    ['of a whole file, or of the runner, counts at once', [fails(one())], 'failed'],
    ['that hangs when it is asked for again is a hang', [fails(one('y')), { end: 'hung' }], 'hung'],
    ['that is stopped says nothing', [fails(one('y')), { end: 'stopped' }], 'stopped'],
    ['is none where all passes', [passes], 'passed'],
    ['is none where all passes the second time', [fails(one('y')), passes, passes], 'passed'],
  ])('%s', async (_, ends, end) => {
    const { outcome } = await settle(...ends)
    expect(outcome.end).toBe(end)
  })
})

describe('a sample', () => {
  const many = Array.from({ length: 40 }, (_, index) => mutantOf(`T${index + 10}`))
  const records: Records = Object.fromEntries(
    many.map(({ id }, index) => [id, { layer: index % 4 === 0 ? null : 'simulation', seconds: 1 + (index % 7) }]),
  )
  const draw = (seed: string, budgetSeconds = 60, from = many): string[] =>
    drawSample(from, { seed, budgetSeconds, records }).map(({ id }) => id)

  test('is the same for the same seed, and another one for another', () => {
    expect(draw('abc')).toEqual(draw('abc'))
    expect(draw('abc')).not.toEqual(draw('abd'))
  })

  test('keeps its order for any order of the mutants', () => {
    expect(draw('abc', 60, many.toReversed())).toEqual(draw('abc'))
  })

  test('never costs more than the budget by what the record says, and leaves nothing out that fits', () => {
    fc.assert(
      fc.property(fc.string(), fc.integer({ min: 0, max: 400 }), (seed, budgetSeconds) => {
        const drawn = draw(seed, budgetSeconds)
        const cost = (id: string): number => (records[id]?.seconds ?? Infinity) + 3
        const spent = drawn.reduce((sum, id) => sum + cost(id), 0)
        const others = many.filter(({ id }) => !drawn.includes(id) && records[id]?.layer !== null)
        return spent <= budgetSeconds && others.every(({ id }) => spent + cost(id) > budgetSeconds)
      }),
    )
  })

  test('holds only what is recorded as caught: nothing else could fail', () => {
    const drawn = draw('abc', 10_000)
    expect(drawn.toSorted()).toEqual(many.map(({ id }) => id).filter((id) => records[id]?.layer !== null))
    expect(drawSample(many, { seed: 'abc', budgetSeconds: 10_000, records: {} })).toEqual([])
  })

  test('draws each mutant for one seed or another', () => {
    const drawn = new Set(Array.from({ length: 100 }, (_, index) => draw(`commit ${index}`)).flat())
    expect(drawn.size).toBe(30)
  })
})

const caught = { mutant: mutantOf('T01'), tried: [triedIn('daemon', passed), triedIn('simulation', failed)] }
const hanging = { mutant: mutantOf('T02', { file: 'engine.ts', origin: 'fresh' }), tried: [triedIn('daemon', hung)] }
const surviving = {
  mutant: mutantOf('T03', { equivalent: 'it is not read' }),
  tried: names.map((name) => triedIn(name, passed)),
}
const unfinished = { mutant: mutantOf('T04'), tried: [triedIn('daemon', stopped)] }
const trials: Trial[] = [caught, hanging, surviving, unfinished]

describe('the report', () => {
  test('says who caught what', () => {
    expect(table(trials, names)).toBe(
      [
        'id   file            breaks  daemon    simulation  contract',
        'T01  reconcile/x.ts  errs    survives  caught      -',
        'T02  engine.ts       errs    hang      -           -',
        'T03  reconcile/x.ts  errs    survives  survives    survives',
        'T04  reconcile/x.ts  errs    stopped   -           -',
      ].join('\n'),
    )
  })

  test('gives the shares by area, by who chose them and by layer; an equivalent one survives, a stopped one is in none', () => {
    expect(shares(trials, names)).toBe(
      [
        'caught: 2 of 3 (66 %)',
        '  src/reconcile: 1 of 2 (50 %)',
        '  src/root: 1 of 1 (100 %)',
        '  chosen by review: 1 of 2 (50 %)',
        '  chosen by invariant: 0 of 0 (0 %)',
        '  chosen by fresh: 1 of 1 (100 %)',
        'first caught in: daemon 1, simulation 1, contract 0',
      ].join('\n'),
    )
  })

  test.each([
    ['names the test that caught it', caught, 'caught in simulation (4 s): x.test.ts: holds'],
    ['names a hang', hanging, 'caught in daemon (2 s): a hang'],
    ['says why one survives', surviving, 'SURVIVES daemon, simulation, contract (6 s), as expected: it is not read'],
    ['says that one was stopped', unfinished, 'stopped after 2 s (daemon)'],
  ])('%s', (_, trial, end) => {
    expect(line(trial)).toBe(`${trial.mutant.id} ${trial.mutant.file} errs\n    ${end}`)
  })
})

describe('the program fails', () => {
  const finished = [caught, hanging, surviving]

  test.each([
    ['not at the target', finished, 66, []],
    ['below the target', finished, 67, ['caught: 2 of 3 (66 %), below the target of 67 %']],
    ['when it was not finished, however good the share', trials, 50, ['1 mutants were not tried to the end']],
    ['when nothing was tried', [], 85, ['caught: 0 of 0 (0 %), below the target of 85 %']],
  ])('%s', (_, tried, target, problems) => {
    expect(shareOf(finished)).toEqual({ caught: 2, of: 3 })
    expect(belowTarget(tried, target)).toEqual(problems)
  })

  const known: Records = { T03: { layer: 'contract', seconds: 1 } }
  test.each<[string, Trial[], Records, string[]]>([
    [
      'when one survives that was caught before',
      finished,
      known,
      ['T03 survives, and is recorded as caught in contract'],
    ],
    ['not for one that is recorded as surviving', finished, { T03: { layer: null, seconds: 0 } }, []],
    ['not for one that nothing is known of', finished, {}, []],
    ['not for one that was not finished', [caught, unfinished], { T04: { layer: 'daemon', seconds: 1 } }, []],
    ['when none of the sample was finished', [unfinished], {}, ['no mutant was tried to the end']],
  ])('with a sample: %s', (_, tried, records, problems) => {
    expect(lost(tried, records)).toEqual(problems)
  })
})

describe('the record', () => {
  test('takes in what was finished, keeps what was not tried, and forgets mutants that are gone', () => {
    const before: Records = {
      T01: { layer: null, seconds: 0 },
      T04: { layer: 'daemon', seconds: 9 },
      T99: { layer: 'daemon', seconds: 1 },
    }
    const everywhere = { mutant: mutantOf('T05'), tried: layers.map(({ name }) => triedIn(name, passed)) }
    const all = [...trials, everywhere]
    expect(
      recorded(
        before,
        all,
        all.map(({ mutant }) => mutant),
      ),
    ).toEqual({
      T01: { layer: 'simulation', seconds: 2 },
      T02: { layer: 'daemon', seconds: 2 },
      T04: { layer: 'daemon', seconds: 9 },
      T05: { layer: null, seconds: 0 },
    })
  })

  test('does not say of one that some layers did not try that it survives', () => {
    expect(recorded({}, [surviving], [surviving.mutant])).toEqual({})
    const known: Records = { T03: { layer: 'wire', seconds: 7 } }
    expect(recorded(known, [surviving], [surviving.mutant])).toEqual(known)
  })

  test('has a line for each', () => {
    expect(formatRecords({})).toBe('{}\n')
    expect(formatRecords({ T01: { layer: null, seconds: 0 }, T02: { layer: 'wire', seconds: 4 } })).toBe(
      '{\n  "T01": { "layer": null, "seconds": 0 },\n  "T02": { "layer": "wire", "seconds": 4 }\n}\n',
    )
  })
})
