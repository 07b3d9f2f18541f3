// The compose file: what it mounts, builds and calls is there, and its parts agree on names and ports.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { fileSchema, keyFolder, tokenFileName } from '../../sandbox/main.ts'
import { loadConfig } from '../../src/config/load.ts'
import { parseDockerfile } from '../support/dockerfile.ts'
import { readDashboard } from './dashboard.ts'
import { read, root } from './texts.ts'

const text = read('config/compose/compose.yaml')

interface Service {
  image?: string
  build?: { context: string; target?: string }
  command?: string[]
  depends_on?: object
  environment?: Record<string, string>
  volumes: string[]
  ports?: string[]
  healthcheck?: { test: string[] }
  stop_grace_period?: string
}

interface Compose {
  services: Record<'sandbox' | 'daemon' | 'prometheus' | 'alertmanager' | 'grafana', Service>
  volumes: object
}

const compose = parse(text) as Compose
const { daemon, sandbox: sandboxService } = compose.services
const all = Object.entries(compose.services)

interface Mount {
  /** A path in the repository, or the name of a volume. */
  source: string
  target: string
  readOnly: boolean
}

function mountsOf({ volumes }: Service): Mount[] {
  return volumes.map((volume) => {
    const [source = '', target = '', mode] = volume.split(':')
    const path = source.startsWith('.') ? join(root, 'config/compose', source) : source
    return { source: path, target, readOnly: mode === 'ro' }
  })
}

/** The text of the file that a container finds at `path`. */
function fileIn(name: keyof Compose['services'], path: string | undefined): string {
  const mount = mountsOf(compose.services[name]).find(({ target }) => target === path)
  if (mount === undefined) throw new Error(`${name} has no file ${path ?? ''}`)
  return readFileSync(mount.source, 'utf8')
}

const tokenFile = daemon.environment?.['RECONCILER_CONTROL_TOKEN_FILE']
const { config } = loadConfig({
  // A variable that is no key is refused.
  env: daemon.environment ?? {},
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

test('it builds stages of the Dockerfile, and pulls images by their version', () => {
  expect(all.map(([, { build, image }]) => build ?? image?.replace(/:v?\d+\.\d+\.\d+$/, ':VERSION'))).toEqual([
    { context: '../..', target: 'sandbox' },
    // The last stage, which is the program.
    { context: '../..' },
    'prom/prometheus:VERSION',
    'prom/alertmanager:VERSION',
    'grafana/grafana:VERSION',
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
  const ports = all.flatMap(([, one]) => one.ports ?? [])
  expect(ports.filter((port) => /^127\.0\.0\.1:(\d+):\1$/.test(port))).toHaveLength(ports.length)
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
  expect(daemon.depends_on).toEqual({ sandbox: { condition: 'service_healthy' } })
})

test('the daemon has as much as in Kubernetes, and time to stop', () => {
  expect(daemon).toMatchObject({ cap_drop: ['ALL'], mem_limit: '512m', read_only: true })
  expect(Number.parseInt(daemon.stop_grace_period ?? '') * 1000).toBeGreaterThan(config.shutdown.grace + 5000)
})

test('Prometheus scrapes the daemon under the name that the rules know, and reports to Alertmanager', () => {
  const prometheus = parse(fileIn('prometheus', '/etc/prometheus/prometheus.yml')) as { rule_files: string[] }
  const targets = [`daemon:${config.server.port}`]
  expect(prometheus).toMatchObject({
    scrape_configs: [{ job_name: 'webhook-reconciler', static_configs: [{ targets }] }],
    alerting: { alertmanagers: [{ static_configs: [{ targets: ['alertmanager:9093'] }] }] },
  })
  expect(fileIn('prometheus', prometheus.rule_files[0])).toBe(read('config/prometheus/alerts.yaml'))
})

test('Grafana asks Prometheus, and has the dashboard at the address that is named', () => {
  const provisioned = (file: string): unknown => parse(fileIn('grafana', `/etc/grafana/provisioning/${file}`))
  expect(provisioned('datasources/prometheus.yaml')).toMatchObject({
    datasources: [{ type: 'prometheus', url: 'http://prometheus:9090', isDefault: true }],
  })
  const mounted = mountsOf(compose.services.grafana).find(({ target }) => target.endsWith('.json'))
  expect(mounted?.source).toBe(join(root, 'config/grafana/dashboard.json'))
  expect(provisioned('dashboards/webhook-reconciler.yaml')).toMatchObject({
    providers: [{ options: { path: dirname(mounted?.target ?? '') } }],
  })
  expect(text).toContain(`http://127.0.0.1:3000/d/${readDashboard().uid}`)
})
