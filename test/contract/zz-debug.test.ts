// Temporary: prints what a round waits for, to find out why it does not end.
import { test } from 'vitest'
import { recoverAll, startPlay } from './cell.ts'
import { populate } from './population.ts'
void populate
test('x', async () => {
  const cell = JSON.parse(process.env['CELL'] ?? '{}')
  await using play = await startPlay(cell)
  const { engine } = play.daemon
  const t = setTimeout(() => {
    for (const e of engine.backlog.awaited()) {
      console.log(JSON.stringify({ ...e, awaiting: { ...e.awaiting, ticket: undefined }, now: play.clock.monotonic() }))
      console.log(JSON.stringify(play.sandbox.record(e.id)), play.sandbox.acceptedRetries(e.id))
    }
    console.log('inFlight', engine.dispatcher.inFlight(), engine.guard.trouble(), JSON.stringify(engine.circuits()), JSON.stringify(play.sandbox.stats), JSON.stringify(engine.state().summary.counts))
    console.log(JSON.stringify(play.sandbox.requestLog().slice(-12)))
    console.log(JSON.stringify(play.daemon.facts.filter((f) => f.type === 'platform-request' && f.reason !== 'ok').slice(-5)))
  }, 8000)
  const v = await recoverAll(play)
  clearTimeout(t)
  console.log(v.violations, v.missing, v.sweeps)
}, 15000)
