// The inhibit_rules in Alertmanager's own hands: a cause notifies, and that webhooks are late because of it does not.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { freePort } from '../../bench/process-figures.ts'
import { makeFolder } from '../../support/process.ts'
import { alertPrefix } from './scenario.ts'

const config = join(import.meta.dirname, '../../../config/compose/alertmanager.yaml')

interface Shown {
  labels: Record<string, string>
  status: { inhibitedBy: string[] }
}

test('amtool takes the configuration', () => {
  const { error, status, stdout } = spawnSync('amtool', ['check-config', config], { encoding: 'utf8' })
  if (error !== undefined) throw new Error("amtool is missing: install Debian's package prometheus-alertmanager")
  expect(stdout).toContain('1 inhibit rules')
  expect(status).toBe(0)
})

test('a cause inhibits that webhooks of its own instance are late, and nothing else', async () => {
  await using folder = await makeFolder()
  const url = `127.0.0.1:${await freePort()}`
  const options = [`--config.file=${config}`, `--storage.path=${folder.path}`, `--web.listen-address=${url}`]
  const alertmanager = spawn('prometheus-alertmanager', [...options, '--cluster.listen-address='], { stdio: 'ignore' })
  const ended = once(alertmanager, 'exit')
  try {
    const answers = (path: string): Promise<boolean> =>
      fetch(`http://${url}${path}`).then(
        (one) => one.ok,
        () => false,
      )
    await expect.poll(() => answers('/-/ready')).toBe(true)
    const late = 'OldestFailedTooOld'
    const causes = ['NoAccessToken', 'SweepStalled', 'ReceiverDown', 'AllReceiversFailing', 'RetriesRefused', 'Paused']
    const alerts = [
      ...causes.flatMap((cause) => [[cause, cause] as const, [late, cause] as const]),
      [late, 'alone'] as const,
      ['Expiring', 'Paused'] as const,
    ]
    const body = alerts.map(([name, instance]) => ({
      labels: { alertname: alertPrefix + name, job: 'j', instance },
    }))
    await fetch(`http://${url}/api/v2/alerts`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const inhibited = async (): Promise<string[]> => {
      const shown = (await (await fetch(`http://${url}/api/v2/alerts`)).json()) as Shown[]
      if (shown.length < alerts.length) return []
      const quiet = shown.filter(({ status }) => status.inhibitedBy.length > 0)
      return quiet.map(({ labels }) => `${labels['alertname'] ?? ''} of ${labels['instance'] ?? ''}`).sort()
    }
    await expect.poll(inhibited).toEqual(causes.map((cause) => `${alertPrefix}${late} of ${cause}`).sort())
  } finally {
    alertmanager.kill()
    await ended
  }
})
