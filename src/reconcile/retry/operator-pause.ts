// The operator's pauses: of all retries or of a subscription, until they end or are resumed. Lost at a restart unless kept in a lease.
import { parseInstant } from '../../runtime/instant.ts'
import { isUuid } from '../../runtime/uuid.ts'

/** Scope and duration of a pause. Times in epoch ms of this host's clock. */
export interface PauseWish {
  /** Undefined: all retries. */
  subscriptionId?: string | undefined
  /** Undefined: until resumed. */
  until?: number | undefined
  reason?: string | undefined
}

export interface OperatorPause extends PauseWish {
  since: number
}

/** At most one for all retries, and one per subscription. */
export type Pauses = readonly OperatorPause[]

export interface PauseEvent extends PauseWish {
  type: 'operator'
  command: 'pause' | 'resume'
  changed: boolean
  /** `lease`: another instance got the command, or the lease was edited; `end`: the pause has expired. */
  via?: 'lease' | 'end'
}

/** The secret sent with a command: control.token, or the proof that its sender can read the private key. */
export type CommandedBy = 'token' | 'proof'

/** A retry job that is no dry run. */
interface JobStarted {
  type: 'operator'
  command: 'retry'
  job: string
  by: CommandedBy
  /** As it was sent. */
  selection: object
  exhausted: boolean
  rate: number | undefined
}

interface JobEnded {
  type: 'operator'
  command: 'retry-ended'
  job: string
  stoppedBy: string | undefined
  /** Without zeros. */
  sums: Readonly<Partial<Record<string, number>>>
}

/** A command of the operator, even if it changed nothing. */
export type OperatorEvent =
  | PauseEvent
  /** `circuits`: number of those whose probe is due now; `platform`: whether its backoff was ended. */
  | { type: 'operator'; command: 'probe'; circuits: number; platform: boolean }
  | JobStarted
  | JobEnded

/** Applies a command to the list of pauses. */
export type ChangePauses = (list: Pauses) => Pauses

export interface PauseOptions {
  /** Host clock, epoch ms. */
  now: () => number
  /** Called when retries may be possible again. */
  wake: () => void
  emit: (event: OperatorEvent) => void
}

export interface Pause {
  /** Each returns true if it changed anything. */
  pause(wish?: PauseWish): boolean
  resume(subscriptionId?: string): boolean
  /** Adopts the pauses shown by the lease, without reporting a command. Returns what changed. */
  follow(list: readonly (PauseWish & { since: number | undefined })[]): PauseEvent[]
  /** Reports expired pauses. */
  turn(): void
  /** Pauses that have not expired. */
  list(): Pauses
  /** The pause of a subscription, or of all retries; undefined without one. */
  of(subscriptionId: string | undefined): OperatorPause | undefined
  /** When the first of them ends, epoch ms; Infinity if only a command ends them. */
  endsAt(): number
}

function isSame(a: Pauses, b: Pauses): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

const among = (list: Pauses, subscriptionId: string | undefined): OperatorPause | undefined =>
  list.find((one) => one.subscriptionId === subscriptionId)

/** The last command counts, from the time of the first. */
export function pausing({ reason, subscriptionId, until }: PauseWish, now: number): ChangePauses {
  return (list) => {
    const before = among(list, subscriptionId)
    const next = { subscriptionId, since: before?.since ?? now, until, reason }
    return before === undefined ? [...list, next] : list.map((one) => (one === before ? next : one))
  }
}

export function resuming(subscriptionId: string | undefined): ChangePauses {
  return (list) => list.filter((one) => one.subscriptionId !== subscriptionId)
}

const notEnded =
  (now: number) =>
  ({ until = Infinity }: OperatorPause) =>
    until > now

/** Texts, and numbers for times; other fields are ignored. A subscription that is no UUID, such as a name, pauses all retries. */
function fieldsOf(value: unknown): Omit<OperatorPause, 'since'> & { since: number | undefined } {
  const fields = { ...(value as object | null) } as Readonly<Record<string, unknown>>
  const text = (name: string): string | undefined => (typeof fields[name] === 'string' ? fields[name] : undefined)
  const moment = (name: string): number | undefined => parseInstant(text(name) ?? '')
  const subscription = text('subscription')
  const isId = isUuid(subscription)
  return {
    subscriptionId: isId ? subscription.toLowerCase() : undefined,
    since: moment('since'),
    until: moment('until'),
    reason: text('reason') ?? (isId ? undefined : subscription),
  }
}

/**
 * Parses an annotation: a JSON list written by `toText`. Any other text, which a person may write, pauses all retries: since
 * that time if it is one, otherwise for that reason.
 */
export function readPauses(text: string, now: number): ReturnType<typeof fieldsOf>[] {
  if (text === '') return []
  const since = parseInstant(text)
  if (since !== undefined) return [{ ...fieldsOf(null), since }]
  try {
    const list: unknown = JSON.parse(text)
    if (Array.isArray(list)) return list.map(fieldsOf).filter(({ until = Infinity }) => until > now)
  } catch {
    // A person's words.
  }
  return [{ ...fieldsOf(null), reason: text }]
}

/** Empty without pauses. */
function toText(list: Pauses): string {
  if (list.length === 0) return ''
  const iso = (at: number | undefined): string | undefined => (at === undefined ? at : new Date(at).toISOString())
  return JSON.stringify(
    list.map(({ reason, since, subscriptionId: subscription, until }) => ({
      ...{ subscription, since: iso(since), until: iso(until), reason },
    })),
  )
}

/** The annotation after a command; unchanged if the command changes nothing. */
export function changedText(text: string, change: ChangePauses, now: number): string {
  const list = readPauses(text, now).map((one) => ({ ...one, since: one.since ?? now }))
  const next = change(list)
  return isSame(list, next) ? text : toText(next)
}

export function createPause({ now, wake, emit }: PauseOptions): Pause {
  let kept: Pauses = []
  const list = (): Pauses => kept.filter(notEnded(now()))

  function turn(): void {
    const ended = kept.filter((one) => !notEnded(now())(one))
    if (ended.length === 0) return
    kept = list()
    for (const { subscriptionId } of ended)
      emit({ type: 'operator', command: 'resume', changed: true, via: 'end', subscriptionId })
    wake()
  }

  function command(name: 'pause' | 'resume', wish: PauseWish, change: ChangePauses): boolean {
    turn()
    const before = kept
    kept = change(before)
    const changed = !isSame(before, kept)
    emit({ type: 'operator', command: name, changed, ...wish })
    if (changed) wake()
    return changed
  }

  return {
    pause: (wish = {}) => command('pause', wish, pausing(wish, now())),
    resume: (subscriptionId) => command('resume', { subscriptionId }, resuming(subscriptionId)),
    follow(shared) {
      turn()
      const before = kept
      kept = shared.map((one) => ({ ...one, since: one.since ?? among(before, one.subscriptionId)?.since ?? now() }))
      if (isSame(before, kept)) return []
      wake()
      const isNew = (one: OperatorPause): boolean => !before.some((other) => isSame([one], [other]))
      return [
        ...kept.filter(isNew).map(({ since: _, ...wish }) => ({ command: 'pause' as const, ...wish })),
        ...before.flatMap(({ subscriptionId }) =>
          among(kept, subscriptionId) === undefined ? [{ command: 'resume' as const, subscriptionId }] : [],
        ),
      ].map((one) => ({ type: 'operator', changed: true, ...one }))
    },
    turn,
    list,
    of(subscriptionId) {
      const isOn = notEnded(now())
      return kept.find((one) => one.subscriptionId === subscriptionId && isOn(one))
    },
    endsAt: () => Math.min(...kept.map(({ until = Infinity }) => until)),
  }
}
