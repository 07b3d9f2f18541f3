// Each command that is printed runs as it is printed: the program's own parser takes it, and nothing in it is left to be filled in.
import { expect, test } from 'vitest'
import { createProgram } from '../../../src/cli/program.ts'
import { statusText } from '../../../src/cli/status-text.ts'
import { createMoments } from '../../../src/cli/moments.ts'
import { renderPage } from '../../../src/ops/page.ts'
import type { StatusState } from '../../../src/ops/status-document.ts'
import { toStatus } from '../../../src/ops/status.ts'
import { gateNames } from '../../../src/reconcile/retry/gates.ts'
import { filesIn, read } from '../../repository/texts.ts'
import { aCause, incidentNow, noDecisions, refusing } from '../../support/incident.ts'
import { aCircuit, aStatusState, noCauses, shut } from '../../support/status.ts'

/** The command that begins a text, up to the end of its arguments. */
const printed = /webhook-reconciler ([a-z][a-z-]*(?: (?:--?[a-z][a-z-]*|(?=[^ ]*\d)[\w:.-]*\w|[a-z]+\.ndjson))*)/g

function commandsIn(text: string): string[] {
  return Array.from(text.matchAll(printed), ([, command = '']) => command)
}

/** Throws what the parser says of a command that is none. */
function parse(command: string): void {
  const program = createProgram(
    { version: '1', stdout: { write: () => true }, stderr: { write: () => true } } as never,
    () => undefined,
  )
  for (const known of program.commands) known.action(() => undefined)
  program.parse(command.split(' '), { from: 'user' })
}

const causes = { ...noCauses, total: 1, records: 2, list: [aCause({ refusedAgain: 2 })] }

const states: Partial<StatusState>[] = [
  ...gateNames.map((gate) => shut(gate)),
  {
    ...shut('subscription-paused'),
    pauses: ['sub-1', 'sub-2'].map((subscriptionId) => ({ subscriptionId, since: incidentNow })),
  },
  { failed: { ...noDecisions, exhausted: 2 }, causes: { ...causes, oldestExhaustedAt: incidentNow } },
  { failed: { ...noDecisions, exhausted: 2 } },
  {
    failed: { ...noDecisions, due: 2 },
    causes,
    endless: refusing(2),
  },
  { failed: { ...noDecisions, due: 2 }, causes: { ...causes, list: [aCause({ subscriptionId: '' })] } },
  { ...shut('circuit'), circuits: [aCircuit()], failed: { ...noDecisions, blocked: 2 } },
]

test('page, status and notices print no command that does not run', () => {
  const seen = new Set<string>()
  for (const state of states) {
    const status = toStatus(aStatusState(state))
    const shown = {
      url: 'http://daemon',
      commandPrefix: 'podman exec app',
      moments: createMoments('UTC'),
      width: undefined,
    }
    const text = statusText(status, { ...shown, paint: (_, one) => one })
    expect(text.match(/(?<!podman exec app )webhook-reconciler [a-z]/g)).toBeNull()
    const page = renderPage(status, { refreshes: false, commandPrefix: '' }).replaceAll(/<\/?(?:span|code)[^>]*>/g, '')
    for (const command of [...commandsIn(text), ...commandsIn(page)]) seen.add(command)
  }
  for (const command of seen) {
    expect(() => {
      parse(command)
    }, command).not.toThrow()
  }
  const names = new Set(Array.from(seen, (command) => command.split(' ')[0]))
  expect([...names].toSorted()).toEqual(['probe', 'resume', 'retry'])
})

test('no command in the source has a place that is to be filled in', () => {
  const lines = filesIn('src', ['.ts']).flatMap((file) => read(file).split('\n'))
  const named = lines.filter((line) => !/^\s*(?:\/\/|\/?\*)/.test(line) && line.includes('webhook-reconciler '))
  expect(named.length).toBeGreaterThan(20)
  expect(named.filter((line) => /webhook-reconciler [a-z][^`'"]* (?:TIME|FILE|ID|NAME\w*)\b/.test(line))).toEqual([])
})
