// The readings of what the specification leaves open (docs/platform-api.md "Open points"), each by a name that identifies it in a failing test.
import type { Policy } from '../../src/reconcile/policy.ts'
import type { Fault } from '../../sandbox/api/faults.ts'
import type { Readings, SandboxOptions } from '../../sandbox/options.ts'

/** What one value of an axis means. */
export interface Aspect {
  /** How the sandbox reads the specification. */
  readings?: Partial<SandboxOptions>
  env?: Readonly<Record<string, string>>
  policy?: Partial<Policy>
  /** How far the daemon's host is ahead of the true time. */
  hostAheadMs?: number
  /** The true time at the start, epoch ms. */
  startMs?: number
  /** Some of the rows can't be read. */
  hasUnreadable?: true
}

/** A zone, and a moment in it. */
function place(timeZone: string, moment: string): Aspect {
  return {
    readings: { timeZone },
    env: { RECONCILER_PLATFORM_TIME_ZONE: timeZone },
    startMs: Temporal.Instant.from(moment).epochMilliseconds,
  }
}

/** Daylight saving in Berlin, 2026: 29 March 01:00Z skips 02:00 to 03:00, 25 October 01:00Z repeats it. The window is six hours. */
const places = {
  utc: place('UTC', '2026-06-15T12:34:56.700Z'),
  'Berlin, in the repeated hour, first time': place('Europe/Berlin', '2026-10-25T00:42:00.300Z'),
  'Berlin, in the repeated hour, second time': place('Europe/Berlin', '2026-10-25T01:30:00.300Z'),
  'Berlin, repeated hour inside': place('Europe/Berlin', '2026-10-25T04:10:00.999Z'),
  'Berlin, window begins in it, first time': place('Europe/Berlin', '2026-10-25T06:40:00Z'),
  'Berlin, window begins in it, second time': place('Europe/Berlin', '2026-10-25T07:20:00Z'),
  'Berlin, just after the skipped hour': place('Europe/Berlin', '2026-03-29T01:05:00.500Z'),
  'Berlin, skipped hour inside': place('Europe/Berlin', '2026-03-29T03:20:00Z'),
  'Berlin, window begins after it': place('Europe/Berlin', '2026-03-29T07:02:00.100Z'),
  'Kiritimati, UTC+14': place('Pacific/Kiritimati', '2026-12-31T10:15:00Z'),
  "St. John's, UTC-3:30, skipped hour inside": place('America/St_Johns', '2026-03-08T08:00:00Z'),
  'Lord Howe, half an hour repeated': place('Australia/Lord_Howe', '2026-04-04T17:00:00Z'),
}

const fiveMinutes = 300_000
const hour = 3_600_000

/** Pages are shorter than they say. */
export const echoing = { maxPageSize: 7, pageSizeTold: 'asked' } as const

/** The responses to half of the retries are lost. */
const loses = (fault: Fault): Aspect => ({ readings: { faults: [{ operation: 'retry', fault, probability: 0.5 }] } })

function boundsOf(precision: Readings['bounds']['precision']): Record<string, Aspect> {
  const sides = ['inclusive', 'exclusive'] as const
  const entries = sides.flatMap((from) =>
    sides.map((to): [string, Aspect] => [
      `from ${from}, to ${to}, by the ${precision}`,
      { readings: { bounds: { from, to, precision } } },
    ]),
  )
  return Object.fromEntries(entries)
}

function each<const Value extends string | number>(
  values: readonly Value[],
  aspect: (value: Value) => Aspect,
): Record<string, Aspect> {
  return Object.fromEntries(values.map((value) => [String(value), aspect(value)]))
}

/** Every axis with what its values mean. */
export const aspects = {
  order: each(['event-asc', 'event-desc', 'id', 'shuffled'], (order) => ({ readings: { order } })),
  bounds: { ...boundsOf('second'), ...boundsOf('fraction') },
  refusal: each([400, 200, 409, 422, 404, 500], (errorStatus) => ({ readings: { errorStatus } })),
  place: places,
  delivery: {
    sync: {},
    async: { readings: { delivery: { mode: 'async', delayMs: 2 } } },
    'async, failed meanwhile, slow': { readings: { delivery: { mode: 'async', delayMs: 150, meanwhile: 'failed' } } },
    'sync, counted at the start': { readings: { countedAt: 'start' } },
    'async, counted at the start': { readings: { delivery: { mode: 'async', delayMs: 0 }, countedAt: 'start' } },
    'async, failed meanwhile, counted at the start': {
      readings: { delivery: { mode: 'async', delayMs: 2, meanwhile: 'failed' }, countedAt: 'start' },
    },
    'async, slow, counted at the start': {
      readings: { delivery: { mode: 'async', delayMs: 150 }, countedAt: 'start' },
    },
  },
  prefix: {
    none: {},
    '/v1/x': { readings: { pathPrefix: '/v1/x' } },
    '/v1/x/': {
      readings: { pathPrefix: '/v1/x' },
      env: { RECONCILER_PLATFORM_BASE_URL: 'https://platform.invalid/v1/x/' },
    },
  },
  clocks: {
    exact: {},
    'host ahead': { hostAheadMs: fiveMinutes },
    'host behind': { hostAheadMs: -fiveMinutes },
    'identity host ahead': { readings: { skewMs: { identity: fiveMinutes, api: 0 } } },
    'identity host behind': { readings: { skewMs: { identity: -fiveMinutes, api: 0 } } },
    'identity host a day ahead of the host': {
      hostAheadMs: -12 * hour,
      readings: { skewMs: { identity: 12 * hour, api: 0 } },
    },
    'not shown': { readings: { dateHeader: false } },
  },
  counting: each(['attempts', 'retries'], (counting) => ({ readings: { counting } })),
  scope: {
    api: {},
    missing: { readings: { tokenScope: null } },
    other: { readings: { tokenScope: 'openid' } },
    'not asked for': { env: { RECONCILER_AUTH_SCOPE: '' }, readings: { tokenScope: null } },
  },
  unknown: { none: {}, fields: { readings: { unknownFields: true } }, rows: { hasUnreadable: true } },
  lost: {
    nothing: {},
    'by a reset': loses({ kind: 'reset', when: 'after' }),
    'by a page of 500': loses({ kind: 'status', status: 500, applied: true, body: 'html' }),
    'cut off': loses({ kind: 'cut' }),
    'over 8 MiB': loses({ kind: 'huge-body', mebibytes: 9 }),
  },
  statuses: each(['lower', 'capital', 'upper'], (statusCase) => ({ readings: { statusCase } })),
  totals: {
    ...each(['exact', 'absent', 'low', 'high', 'zero', 'page'], (totals) => ({ readings: { totals } })),
    'exact, and each size is that asked for': { readings: { ...echoing, totals: 'exact' } },
    'absent, and each size is that asked for': { readings: { ...echoing, totals: 'absent' } },
  },
  empty: each(['array', 'absent', 'null', 'proto3'], (emptyList) => ({ readings: { emptyList } })),
  pages: { 'of 100': {}, 'of 7': { readings: { maxPageSize: 7 } } },
  fraction: each(['micro', 'nano', 'grouped', 'trimmed'], (fraction) => ({ readings: { fraction } })),
  accepted: each([200, 201, 202], (acceptedStatus) => ({ readings: { acceptedStatus } })),
  encoding: each(['both', 'repeated', 'comma', 'single'], (statusEncoding) => ({ readings: { statusEncoding } })),
  ignores: {
    nothing: {},
    status: { readings: { ignores: ['status'] } },
    'page.size': { readings: { ignores: ['page.size'] } },
  },
  selection: {
    all: {},
    'event types': { env: { RECONCILER_SELECT_EVENT_TYPES: 'incoming-transfer-completed,account-activated' } },
  },
} as const satisfies Record<string, Readonly<Record<string, Aspect>>>

export type AxisName = keyof typeof aspects
/** Axes that are left out have their plainest value. */
export type PartialCell = Readonly<Partial<Record<AxisName, string>>>

/** The names alone, for `pairwise` and `product`. */
export const axes = Object.fromEntries(
  Object.entries(aspects).map(([axis, values]) => [axis, Object.keys(values)]),
) as Record<AxisName, string[]>

/** Some of the axes. */
export function only<const Names extends readonly AxisName[]>(...names: Names): Record<Names[number], string[]> {
  return Object.fromEntries(names.map((name) => [name, axes[name]])) as Record<Names[number], string[]>
}

/** What a cell means, with more besides. */
export function aspectOf(cell: PartialCell, more: Aspect): Aspect {
  const chosen = Object.entries(cell).map(([axis, value]) => {
    const values: Readonly<Record<string, Aspect>> = aspects[axis as AxisName]
    const aspect = values[value]
    if (aspect === undefined) throw new RangeError(`the axis ${axis} has no value ${value}`)
    return aspect
  })
  return [places.utc, ...chosen, more].reduce((whole, part) => ({
    ...whole,
    ...part,
    readings: { ...whole.readings, ...part.readings },
    env: { ...whole.env, ...part.env },
  }))
}
