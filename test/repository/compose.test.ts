// The compose file: what it mounts, builds and calls is there, and its parts agree on names and ports.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { fileSchema, keyFolder, tokenFileName } from '../../sandbox/main.ts'
import { loadConfig } from '../../src/config/load.ts'
import { parseDockerfile } from '../support/dockerfile.ts'
import { readDashboard } from './dashboard.ts'
import { read, root } from './texts.ts'

const folder = join(root, 'config/compose')
const text = read('config/compose/compose.yaml')

/** Strict: a field that compose does not know would be refused by it. */
const service = z.strictObject({
  image: z
    .string()
    .regex(/^[a-z/]+:v?\d+\.\d+\.\d+$/)
    .optional(),
  build: z.strictObject({ context: z.string(), target: z.string().optional() }).optional(),
  command: z.array(z.string()).optional(),
  depends_on: z.record(z.string(), z.strictObject({ condition: z.literal('service_healthy') })).optional(),
  environment: z.record(z.string(), z.string()).default({}),
  volumes: z.array(z.string()).default([]),
  ports: z.array(z.string()).default([]),
  healthcheck: z.strictObject({ test: z.array(z.string()), interval: z.string(), retries: z.int() }).optional(),
  read_only: z.boolean().optional(),
  cap_drop: z.array(z.string()).optional(),
  security_opt: z.array(z.string()).optional(),
  mem_limit: z.string().optional(),
  ulimits: z.strictObject({ core: z.literal(0) }).optional(),
  stop_grace_period: z.string().default('10s'),
})
const services = z.object({
  sandbox: service,
  daemon: service,
  prometheus: service,
  alertmanager: service,
  grafana: service,
})
const compose = z
  .strictObject({ name: z.string(), services: services.strict(), volumes: z.record(z.string(), z.null()) })
  .parse(parse(text))
const { daemon, sandbox: sandboxService } = compose.services
const all = Object.entries(compose.services)

interface Mount {
  /** A path in the repository, or the name of a volume. */
  source: string
  target: string
  readOnly: boolean
}

function mountsOf({ volumes }: z.output<typeof service>): Mount[] {
  return volumes.map((volume) => {
    const [source = '', target = '', mode] = volume.split(':')
    return { source: source.startsWith('.') ? join(folder, source) : source, target, readOnly: mode === 'ro' }
  })
}

/** The text of the file that a container finds at `path`. */
function fileIn(name: keyof typeof compose.services, path: string | undefined): string {
  const mount = mountsOf(compose.services[name]).find(({ target }) => target === path)
  if (mount === undefined) throw new Error(`${name} has no file ${path ?? ''}`)
  return readFileSync(mount.source, 'utf8')
}

const tokenFile = daemon.environment['RECONCILER_CONTROL_TOKEN_FILE']
const { config } = loadConfig({
  // A variable that is no key is refused.
  env: daemon.environment,
  hostName: 'daemon',
  // The sandbox makes the token at its start.
  readFile: (path) => (path === tokenFile ? 'ab'.repeat(32) : fileIn('daemon', path)),
})
const sandbox = fileSchema.parse(parse(fileIn('sandbox', sandboxService.command?.[1])) as unknown)

test.each(all)('%s mounts files of the repository, read-only, or a volume that is declared', (_name, one) => {
  for (const { readOnly, source } of mountsOf(one)) {
    const isOurs = existsSync(source) && !relative(root, source).startsWith('..')
    expect(source in compose.volumes || (isOurs && readOnly), source).toBe(true)
  }
})

test('what it builds are stages of the Dockerfile: the sandbox, and the last one, which is the program', () => {
  const builds = all.flatMap(([name, { build }]) => (build === undefined ? [] : [{ name, ...build }]))
  expect(builds).toEqual([
    { name: 'sandbox', context: '../..', target: 'sandbox' },
    { name: 'daemon', context: '../..' },
  ])
  const { stages } = parseDockerfile(read('Dockerfile'))
  expect(stages.at(-1)?.name).toBeUndefined()
  // It makes its key in its working directory, which the daemon mounts at the same place.
  const instructions = stages.find(({ name }) => name === 'sandbox')?.instructions
  const workdir = instructions?.findLast(({ name }) => name === 'WORKDIR')?.rest ?? ''
  for (const one of [sandboxService, daemon]) {
    expect(mountsOf(one)).toContainEqual(expect.objectContaining({ source: 'sandbox-keys', target: workdir }))
  }
  expect(config.auth.privateKeyFile).toBe(`${workdir}/${keyFolder}/private-key.pem`)
  expect(tokenFile).toBe(`${workdir}/${keyFolder}/${tokenFileName}`)
})

test('all ports are open on this machine alone', () => {
  const ports = all.flatMap(([, one]) => one.ports)
  expect(ports.length).toBe(4)
  for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:(\d+):\1$/)
  expect(daemon.ports).toEqual([`127.0.0.1:${config.server.port}:${config.server.port}`])
})

test('the daemon calls the sandbox as that is played', () => {
  const { clientId, controlPort, port, publicOrigin, realm, receiverPort } = sandbox
  expect(sandbox).toMatchObject({ host: '0.0.0.0', publicOrigin: `http://sandbox:${port}` })
  expect(config.platform).toMatchObject({ baseUrl: publicOrigin, timeZone: 'UTC', allowInsecure: true })
  expect(config.auth).toMatchObject({ authUrl: publicOrigin, realm, clientId })
  expect(config.receiver.healthUrl).toBe(`http://sandbox:${receiverPort}/health`)
  expect(sandboxService.healthcheck?.test.join(' ')).toContain(`http://127.0.0.1:${port}/`)
  expect(text).toContain(`http://127.0.0.1:${controlPort}/receiver`)
  expect(Object.keys(daemon.depends_on ?? {})).toEqual(['sandbox'])
})

test('the daemon has as much as in Kubernetes, and time to stop', () => {
  expect(daemon).toMatchObject({ cap_drop: ['ALL'], mem_limit: '512m', read_only: true })
  expect(Number.parseInt(daemon.stop_grace_period) * 1000).toBeGreaterThan(config.shutdown.grace + 5000)
})

test('Prometheus scrapes the daemon under the name that the rules know, and reports to Alertmanager; Grafana asks it', () => {
  const prometheus: unknown = parse(fileIn('prometheus', '/etc/prometheus/prometheus.yml'))
  const { global, rule_files: ruleFiles } = prometheus as { global: { scrape_interval: string }; rule_files: string[] }
  expect(prometheus).toMatchObject({
    scrape_configs: [
      { job_name: 'webhook-reconciler', static_configs: [{ targets: [`daemon:${config.server.port}`] }] },
    ],
    alerting: { alertmanagers: [{ static_configs: [{ targets: ['alertmanager:9093'] }] }] },
  })
  expect(fileIn('prometheus', ruleFiles[0])).toBe(read('config/prometheus/alerts.yaml'))
  expect(parse(fileIn('grafana', '/etc/grafana/provisioning/datasources/prometheus.yaml'))).toMatchObject({
    datasources: [
      {
        type: 'prometheus',
        url: 'http://prometheus:9090',
        isDefault: true,
        jsonData: { timeInterval: global.scrape_interval },
      },
    ],
  })
})

test('Grafana has the dashboard, at the address that is named', () => {
  const mounted = mountsOf(compose.services.grafana).find(({ target }) => target.endsWith('.json'))
  expect(mounted?.source).toBe(join(root, 'config/grafana/dashboard.json'))
  expect(parse(fileIn('grafana', '/etc/grafana/provisioning/dashboards/webhook-reconciler.yaml'))).toMatchObject({
    providers: [{ options: { path: dirname(mounted?.target ?? '') } }],
  })
  expect(text).toContain(`http://127.0.0.1:3000/d/${readDashboard().uid}`)
})
