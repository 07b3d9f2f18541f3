// Alerts in the real thing: real Prometheus with the shipped rules, real Alertmanager, real daemons, each with its own platform.
// Each instance has one thing broken; one Prometheus watches them all, as it would a fleet, and none may speak for another.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/runtime/clock.ts'
import { fillIn, panelsOf, readDashboard } from '../../repository/dashboard.ts'
import { incidents, type Incident } from './incidents.ts'
import { startMonitoring, type Monitoring, type Series } from './monitoring.ts'
import type { Notice } from './pager.ts'
import { startScene, type Scene } from './scene.ts'
import { shortenRules } from './shorten.ts'
import { keepWatching, watch } from './watch.ts'

/**
 * Minutes of the rules take four seconds here: every `for`, range and offset is divided by this. Not more: the daemon asks
 * for a token at most twice in 30 s in any case, and a rule wants to see a try within its 10 minutes (40 s here).
 */
const timesFaster = 15
const scrapeMs = 1000
/** The longest way back: a circuit's pause, or the key file's check and the pause between token tries; then the recovery. */
const mendSeconds = 150

const alertPrefix = 'WebhookReconciler'
const healthy = 'all-well'
const parts = new AsyncDisposableStack()
const scenes = new Map<string, Scene>()
const story: string[] = []
let monitoring: Monitoring

function sceneOf(instance: string): Scene {
  const scene = scenes.get(instance)
  if (scene === undefined) throw new Error(`there is no instance ${instance}`)
  return scene
}

beforeAll(async () => {
  for (const options of [{ instance: healthy }, ...incidents]) {
    scenes.set(options.instance, parts.use(await startScene(options, timesFaster)))
  }
  const shipped = readFileSync(join(import.meta.dirname, '../../../config/prometheus/alerts.yaml'), 'utf8')
  monitoring = parts.use(
    await startMonitoring({
      targets: [...scenes.values()],
      rules: shortenRules(shipped, { factor: timesFaster, leastMs: 2 * scrapeMs }),
      intervalMs: scrapeMs,
    }),
  )
  const watched = async (): Promise<boolean> => (await monitoring.query('up == 1')).length === scenes.size
  await watch('Prometheus to see all instances', 60, watched)
})

afterAll(async () => {
  await parts.disposeAsync()
  process.stdout.write(`\nWhat arrived when (times ${timesFaster} in the shipped rules):\n${story.join('\n')}\n`)
})

/** What arrived of an instance, in short and in order. */
function arrived(instance: string): string[] {
  return monitoring.notices(instance).map(({ alert, status }) => `${alert.replace(alertPrefix, '')} ${status}`)
}

function tell(what: string, since: number, notice: Notice | undefined): string {
  return notice === undefined ? '' : `${what} ${((notice.at - since) / 1000).toFixed(1)} s later`
}

async function nothingMissing({ sandbox, sum }: Scene): Promise<boolean> {
  return sandbox.counts().failed === 0 && (await sum('failed_webhooks')) === 0
}

async function playIncident(incident: Incident): Promise<void> {
  const { instance, alert, severity, holdSeconds } = incident
  const scene = sceneOf(instance)
  expect(arrived(instance)).toEqual([])

  await incident.break(scene)
  const brokenAt = systemClock.now()
  const fired = `${alert} firing`
  await keepWatching(holdSeconds, () => {
    expect([[], [fired]]).toContainEqual(arrived(instance))
  })
  expect(arrived(instance)).toEqual([fired])
  const [first] = monitoring.notices(instance)
  expect(first).toMatchObject({
    severity,
    runbook: `docs/runbook.md#${alertPrefix.toLowerCase()}${alert.toLowerCase()}`,
  })
  expect(first?.summary).not.toMatch(/\{\{|^$/)

  const mendedAt = systemClock.now()
  await incident.mend(scene)
  const whole = [fired, `${alert} resolved`]
  await watch(
    `the end of ${instance}; until now there arrived ${arrived(instance).join(', ')}`,
    mendSeconds,
    async () => arrived(instance).length === whole.length && (await nothingMissing(scene)),
    () => {
      expect([[fired], whole]).toContainEqual(arrived(instance))
    },
  )
  const [, last] = monitoring.notices(instance)
  story.push(
    `  ${instance.padEnd(22)} ${tell(fired, brokenAt, first)}; put right after ${holdSeconds} s, ${tell('resolved', mendedAt, last)}`,
  )
}

describe.concurrent('one thing is broken: one alert arrives, no other, and it resolves', () => {
  test.each(incidents)('$instance: $alert', async (incident) => {
    await playIncident(incident)
  })
})

describe.concurrent('the dashboard', () => {
  /** Some thirty scrapes: what has just been recovered stays in view while all panels are asked. */
  const range = '30s'

  /** A quantile of nothing is NaN: no data. */
  function hasData(series: readonly Series[]): boolean {
    return series.some(({ value }) => !Number.isNaN(value))
  }

  async function withoutData(queries: readonly string[]): Promise<string[]> {
    const answers = await Promise.all(queries.map(async (query) => ({ query, series: await monitoring.query(query) })))
    return answers.filter(({ series }) => !hasData(series)).map(({ query }) => query)
  }

  test('every query returns data once something was recovered', async () => {
    const { sandbox, fail } = sceneOf(healthy)
    fail(30)
    await watch('the recovery', 60, () => sandbox.counts().successful === 30)
    const queries = panelsOf(readDashboard().panels).flatMap(({ targets = [] }) =>
      targets.map(({ expr }) => fillIn(expr, range)),
    )
    expect(queries.length).toBeGreaterThan(25)
    let missing = queries
    await watch('data of every panel', 25, async () => {
      missing = await withoutData(missing)
      return missing.length === 0
    }).catch((error: unknown) => {
      expect(missing, 'queries without data').toEqual([])
      throw error
    })
  })

  test('the variables find jobs and instances', async () => {
    const series = await monitoring.query('webhook_reconciler_build_info{job=~".*"}')
    expect(new Set(series.map(({ labels }) => labels['job']))).toEqual(new Set(['webhook-reconciler']))
    expect(series.map(({ labels }) => labels['instance'])).toContain(healthy)
  })

  test('a query without data is found out', async () => {
    const empty = [
      'webhook_reconciler_nothing',
      'histogram_quantile(0.5, rate(webhook_reconciler_nothing[30s]))',
      'vector(NaN)',
    ]
    expect(await withoutData([...empty, 'vector(1)'])).toEqual(empty)
  })
})

test('nothing else arrived, of anybody', () => {
  const told = monitoring.notices().map(({ instance, alert, status }) => `${instance} ${alert} ${status}`)
  const expected = incidents.flatMap(({ instance, alert }) =>
    ['firing', 'resolved'].map((status) => `${instance} ${alertPrefix}${alert} ${status}`),
  )
  expect(told.toSorted()).toEqual(expected.toSorted())
})
