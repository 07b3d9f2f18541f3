// A real Prometheus with the configuration of config/compose: it takes the rules, and scrapes a real daemon.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { freePort } from '../../bench/process-figures.ts'
import { sandboxEnv, startPlatform } from '../../support/platform.ts'
import { makeFolder, startDaemon } from '../../support/process.ts'
import { rulesFile } from './promtool.ts'

const shipped = readFileSync(join(rulesFile, '../../compose/prometheus.yaml'), 'utf8')

interface Answered {
  data: {
    activeTargets: { health: string; lastError: string }[]
    groups: { rules: { health: string }[] }[]
  }
}

test('scrapes the daemon, and evaluates as many rules as there are', async () => {
  await using sandbox = await startPlatform()
  await using daemon = await startDaemon(await sandboxEnv(sandbox))
  await using folder = await makeFolder()
  const config = shipped
    .replace('/etc/prometheus/alerts.yaml', rulesFile)
    .replace('daemon:10964', new URL(daemon.url).host)
    .replaceAll('15s', '1s')
  const address = `127.0.0.1:${await freePort()}`
  const prometheus = spawn(
    'prometheus',
    [
      `--config.file=${await folder.write('prometheus.yaml', config)}`,
      `--storage.tsdb.path=${folder.path}/data`,
      `--web.listen-address=${address}`,
    ],
    { stdio: 'ignore' },
  )
  await once(prometheus, 'spawn')
  try {
    const ask = async (path: string): Promise<Partial<Answered['data']>> =>
      fetch(`http://${address}/api/v1/${path}`)
        .then(async (answer) => ((await answer.json()) as Answered).data)
        .catch(() => ({}))
    await expect.poll(async () => (await ask('targets')).activeTargets).toMatchObject([{ health: 'up', lastError: '' }])
    const count = readFileSync(rulesFile, 'utf8').match(/^ +- (?:alert|record):/gm)?.length
    const healthOf = async (): Promise<string[]> =>
      ((await ask('rules')).groups ?? []).flatMap(({ rules }) => rules.map(({ health }) => health))
    await expect.poll(healthOf).toEqual(Array(count).fill('ok'))
  } finally {
    prometheus.kill('SIGKILL')
    await once(prometheus, 'close')
  }
})
