// Assertions are never of the future, tokens are renewed before they end, and one that was refused is not used again. @see docs/architecture.md "Access token"
import { decode } from '../identity.ts'
import { minuteMs } from '../draw.ts'
import type { Call, Operation, Told } from '../network.ts'
import { clocksOf } from '../world.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** A token younger than this may be tried once more. */
const youngTokenMs = 10_000
/** The key file is looked at every 10 s; a failed try may have to wait for the next one. */
const keyCheckMs = 12_000
/** So long after its registration a new key may not have been tried again. */
const newKeyRetryMs = 65_000
/** From the first refusal of a void token to another one: a doubt comes once a minute, or after a minute in which nothing succeeds. */
const replacedMs = { plain: 75_000, coded: 135_000 }
/** Between two token requests, after failures. */
const longestBackoffMs = 300_000
/** A token is renewed at 70 % of its life at the latest. */
const renewedBy = 0.75

export function createIdentityWatcher(options: WatcherOptions): Watcher {
  const { exercise, holds, keyFiles, scenario, timeline, violate } = options
  const { identityNow } = clocksOf(scenario, timeline)
  /** When tokens came, by the value that calls carry. */
  const tokens = new Map<string, number>()
  const refused = new Map<string, number>()
  /** Tokens that were granted since one last worked. */
  let unworked = 0
  let tellsTime = 0
  let triedAt = -Infinity
  /** HTTP status of the last response to a token request; undefined for none. */
  let tokenStatus: number | undefined
  const lifeMs = scenario.habits.tokenLifeSeconds * 1000
  /** When the key of the file was last refused, by a fault if it is registered; and if so in the last request: the other's turn is next. */
  let refusedKeyAt = -Infinity
  let isOthersTurn = false
  /** The last token that came: when, and by which key. */
  let granted: { at: number; key: unknown } | undefined
  /** The last token with which a call succeeded, calls that have succeeded, and since when the token in use is void. */
  let working: string | undefined
  const worked = new Set<Operation>()
  let voidSince: number | undefined

  const keyOf = (call: Call): unknown => {
    const [, , signature] = (new URLSearchParams(call.form).get('client_assertion') ?? '').split('.')
    return decode(signature)['key']
  }

  /** A key that got a token, and is registered still, gets others until a newer one does. */
  function checkHeld(): void {
    if (granted === undefined || granted.key === keyFiles.key() || granted.key !== keyFiles.registered()) return
    if (!holds.isFaultlessSince(timeline.now() - lifeMs - longestBackoffMs)) return
    exercise('a key that works signs while a new one does not')
    if (timeline.now() - granted.at > lifeMs + minuteMs) violate('limits', 'has no token, although a former key works')
  }

  function checkReplaced(): void {
    if (voidSince === undefined || scenario.faults.length > 0) return
    const { voidToken } = scenario.habits
    const ms = voidToken === 400 || voidToken === 500 ? replacedMs.coded : replacedMs.plain
    if (timeline.now() - voidSince > ms) violate('limits', 'goes on with a token that is void')
  }

  function checkAssertion(call: Call): void {
    const [, payload] = (new URLSearchParams(call.form).get('client_assertion') ?? '').split('.')
    const { iat } = decode(payload)
    const now = identityNow() / 1000
    // The host's clock may have been set since: what was learned is learned anew then.
    if (tellsTime > 0 && typeof iat === 'number') {
      exercise('assertions are not of the future')
      if (iat > now) violate('limits', `signs an assertion ${(iat - now).toFixed(3)} s in the future`)
    }
    const key = keyOf(call)
    const before = (ms: number) => (change: { at: number }) => change.at <= timeline.now() - ms
    if (scenario.keys.file.findLast(before(0)) !== scenario.keys.file.findLast(before(keyCheckMs))) return
    // A new one that is not registered, or was not until a moment ago, leaves the former one in use.
    const registered = scenario.keys.registered.findLast(before(newKeyRetryMs))
    if (keyFiles.lastKey() !== (registered?.key ?? 0) || isOthersTurn) return
    if (timeline.now() - refusedKeyAt < newKeyRetryMs) return
    exercise('the key that is in the file is used')
    if (key !== keyFiles.lastKey())
      violate('limits', `signs with key ${String(key)}, in the file is ${keyFiles.lastKey()}`)
  }

  function checkToken({ operation, token = '' }: Call): void {
    const at = refused.get(token)
    if (at !== undefined && at < timeline.now()) violate('limits', `sends a ${operation} with a token that was refused`)
    const came = tokens.get(token)
    if (came === undefined) tokens.set(token, timeline.now())
    else if (timeline.now() - came > renewedBy * lifeMs && lifeMs >= 20_000) {
      exercise('tokens are renewed early')
      if (triedAt < came) violate('limits', 'lets a token come to its end without asking for another')
    }
  }

  function learnRefusal({ sentAt, token = '' }: Call, { status }: Told): void {
    if (status !== 401) return
    const came = tokens.get(token) ?? timeline.now()
    // After two that never worked, the next is kept twice as long.
    const keptMs = token === working ? youngTokenMs : youngTokenMs * 2 ** Math.min(4, Math.max(0, unworked - 2))
    if (sentAt - came < keptMs) return
    exercise('a refused token is not used again')
    if (!refused.has(token)) refused.set(token, timeline.now())
  }

  /** A young one that has not worked may not be known yet. */
  function learnVoid({ operation, token }: Call): void {
    const isYoung = token !== working && timeline.now() - (granted?.at ?? -Infinity) < youngTokenMs
    if (worked.has(operation) && !isYoung) voidSince ??= timeline.now()
  }

  return {
    sent(call) {
      if (call.operation === 'token') {
        triedAt = timeline.now()
        checkAssertion(call)
      } else if (call.operation !== 'health') {
        checkToken(call)
      }
    },
    told(call, told) {
      if (call.operation === 'token') {
        if (told.hasDate && told.kind !== 'given-up') tellsTime += 1
        tokenStatus = told.status
        // One that was throttled, or failed, tells nothing of the key.
        const { status = Infinity } = told
        if (status < 429) isOthersTurn = status >= 400 && keyOf(call) === keyFiles.lastKey()
        if (isOthersTurn) refusedKeyAt = timeline.now()
        if (told.kind === 'told' && told.status === 200) {
          granted = { at: timeline.now(), key: keyOf(call) }
          unworked = working === undefined ? unworked + 1 : 1
          if (voidSince !== undefined) exercise('a void token is replaced, however that is said')
          voidSince = undefined
          working = undefined
        }
        return
      }
      learnRefusal(call, told)
      if (told.kind === 'told' && told.status === 200) {
        working = call.token
        worked.add(call.operation)
        // By another one: what was refused since was repeated with the former token.
        if (call.sentAt >= (voidSince ?? Infinity)) voidSince = undefined
      } else if (told.isVoid === true) learnVoid(call)
    },
    scraped() {
      checkHeld()
      checkReplaced()
    },
    fact(fact) {
      if (fact.type !== 'token-refreshed' || fact.result === 'ok' || tokenStatus !== 429) return
      exercise('an error under 429 is no rejection')
      if (fact.result === 'rejected') violate('books', 'takes a throttled token request for a rejected one')
    },
  }
}
