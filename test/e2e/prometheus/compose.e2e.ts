// The Prometheus of config/compose/compose.yaml: promtool takes its configuration with the rules.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeFolder } from '../../support/process.ts'
import { promtool } from './promtool.ts'

const config = join(import.meta.dirname, '../../../config')
const text = readFileSync(join(config, 'compose/prometheus.yaml'), 'utf8')

test('promtool takes it, with as many rules as there are', async () => {
  await using folder = await makeFolder()
  const rules = join(config, 'prometheus/alerts.yaml')
  const file = await folder.write('prometheus.yaml', text.replace('/etc/prometheus/alerts.yaml', rules))
  const { code, output } = await promtool(['check', 'config', file])
  const count = readFileSync(rules, 'utf8').match(/^ +- (?:alert|record):/gm)?.length ?? 0
  expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining(`${count} rules found`) as string })
})

test('a key that Prometheus does not know is found out', async () => {
  await using folder = await makeFolder()
  const file = await folder.write('prometheus.yaml', text.replace('job_name:', 'jobname:'))
  expect((await promtool(['check', 'config', file])).code).not.toBe(0)
})
