// Keys of the release before, renamed or removed since: they are read for one release, with a warning that says what to do.
import type { ConfigurationProblem } from '../runtime/errors.ts'
import { environmentName, type FormerKey } from './key.ts'
import type { Given, Layer } from './layer.ts'

/** Take an entry out one release after it came in. */
export const formerKeys: readonly FormerKey[] = [
  { key: 'outcome.firstLook', now: 'outcome.firstCheck' },
  { key: 'circuit.initialAllowance', now: 'circuit.initialLimit' },
  { key: 'circuit.maxAllowance', now: 'circuit.maxLimit' },
  {
    key: 'log.format',
    advice: 'the log is always JSON; for reading, pipe it into `npx pino-pretty`. Take the key out',
  },
  {
    key: 'control.host',
    advice: 'commands come to server.port; take it out, and for commands from other hosts set control.allowRemote',
  },
  { key: 'control.port', advice: 'commands come to server.port; take it out' },
]

function warningOf({ advice, key, now }: FormerKey, { origin }: Given): ConfigurationProblem {
  const todo =
    now === undefined
      ? `is read no more: ${advice ?? 'take it out'}`
      : `is now ${now} (${environmentName(now)}): rename it, the next release does not read the old name`
  return { key, origin, message: todo }
}

/** Puts values that were given under former keys where they belong. Both names in one layer are a problem. */
export function adoptFormerKeys(layer: Layer): void {
  for (const { former, given } of layer.former) {
    const { key, now } = former
    const rival = now === undefined ? undefined : layer.values.get(now)
    if (rival !== undefined) {
      const message = `is now ${now}, which is set too (${rival.origin}): take the old one out`
      layer.problems.push({ key, origin: given.origin, message })
      continue
    }
    layer.warnings.push(warningOf(former, given))
    if (now !== undefined) layer.values.set(now, given)
  }
}
