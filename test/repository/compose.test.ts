// The compose file: what it mounts, builds and calls is there, and its parts agree on names and ports.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse, parseDocument } from 'yaml'
import { z } from 'zod'
import { fileSchema, keyFolder, tokenFileName } from '../../sandbox/main.ts'
import { loadConfig } from '../../src/config/load.ts'
import { parseDockerfile } from '../support/dockerfile.ts'
import { readDashboard } from './dashboard.ts'

const root = join(import.meta.dirname, '../..')
const folder = join(root, 'config/compose')
const read = (file: string): string => readFileSync(join(folder, file), 'utf8')

/** Strict: a field that compose does not know would be refused by it. */
const service = z
  .strictObject({
    image: z.string().regex(/^[a-z/]+:v?\d+\.\d+\.\d+$/),
    build: z.strictObject({ context: z.string(), target: z.string().optional() }),
    command: z.array(z.string()),
    depends_on: z.record(z.string(), z.strictObject({ condition: z.literal('service_healthy') })),
    environment: z.record(z.string(), z.string()),
    volumes: z.array(z.string()),
    ports: z.array(z.string()),
    healthcheck: z.strictObject({ test: z.array(z.string()), interval: z.string(), retries: z.int() }),
    read_only: z.boolean(),
    cap_drop: z.array(z.string()),
    security_opt: z.array(z.string()),
    mem_limit: z.string(),
    ulimits: z.strictObject({ core: z.literal(0) }),
    stop_grace_period: z.string(),
  })
  .partial()
const compose = z
  .strictObject({
    name: z.string(),
    services: z.record(z.string(), service),
    volumes: z.record(z.string(), z.null()),
  })
  .parse(parse(read('compose.yaml')))

interface Mount {
  /** A path in the repository, or the name of a volume. */
  source: string
  target: string
  readOnly: boolean
}

function mountsOf(name: string): Mount[] {
  return (compose.services[name]?.volumes ?? []).map((volume) => {
    const [source = '', target = '', mode] = volume.split(':')
    return { source: source.startsWith('.') ? join(folder, source) : source, target, readOnly: mode === 'ro' }
  })
}

/** The text of the file that a container finds at `path`. */
function fileIn(name: string, path: string): string {
  const mount = mountsOf(name).find(({ target }) => target === path)
  if (mount === undefined) throw new Error(`${name} has no file ${path}`)
  return readFileSync(mount.source, 'utf8')
}

function at(value: unknown, ...path: (string | number)[]): unknown {
  return path.reduce<unknown>((inner, key) => (inner as Record<string | number, unknown>)[key], value)
}

const all = Object.keys(compose.services)
const environment = compose.services['daemon']?.environment ?? {}
const tokenFile = environment['RECONCILER_CONTROL_TOKEN_FILE'] ?? ''
const { config } = loadConfig({
  // A variable that is no key is refused.
  env: environment,
  hostName: 'daemon',
  // The sandbox makes the token at its start.
  readFile: (path) => (path === tokenFile ? 'ab'.repeat(32) : fileIn('daemon', path)),
})
const sandbox = fileSchema.parse(parse(fileIn('sandbox', String(compose.services['sandbox']?.command?.[1]))) as unknown)
const prometheus: unknown = parse(fileIn('prometheus', '/etc/prometheus/prometheus.yml'))

test.each([
  'compose.yaml',
  'daemon.yaml',
  'sandbox.yaml',
  'prometheus.yaml',
  'alertmanager.yaml',
  'grafana/datasources.yaml',
  'grafana/dashboards.yaml',
])('%s is YAML without warnings', (file) => {
  const { errors, warnings: doubts } = parseDocument(read(file))
  expect([...errors, ...doubts]).toEqual([])
})

describe('what it mounts', () => {
  test.each(all)('%s: files of the repository, read-only, or a volume that is declared', (name) => {
    for (const { readOnly, source } of mountsOf(name)) {
      const isVolume = source in compose.volumes
      expect(isVolume || (existsSync(source) && !relative(root, source).startsWith('..')), source).toBe(true)
      expect(isVolume || readOnly, source).toBe(true)
    }
  })

  test('each volume is used', () => {
    const sources = all.flatMap(mountsOf).map(({ source }) => source)
    for (const volume of Object.keys(compose.volumes)) expect(sources).toContain(volume)
  })
})

test('what it builds are stages of the Dockerfile: the sandbox, and the last one, which is the program', () => {
  const { stages } = parseDockerfile(readFileSync(join(root, 'Dockerfile'), 'utf8'))
  const builds = all.flatMap((name) => {
    const { build } = compose.services[name] ?? {}
    return build === undefined ? [] : [[name, join(folder, build.context), build.target]]
  })
  expect(builds).toEqual([
    ['sandbox', root, 'sandbox'],
    ['daemon', root, undefined],
  ])
  const stage = stages.find(({ name }) => name === 'sandbox')
  expect(stage).toBeDefined()
  expect(stages.at(-1)?.name).toBeUndefined()
  // It makes its key in its working directory, which the daemon mounts at the same place.
  const workdir = stage?.instructions.findLast(({ name }) => name === 'WORKDIR')?.rest
  for (const name of ['sandbox', 'daemon']) {
    expect(mountsOf(name).find(({ source }) => source === 'sandbox-keys')?.target).toBe(workdir)
  }
  expect(config.auth.privateKeyFile).toBe(`${workdir ?? ''}/${keyFolder}/private-key.pem`)
  expect(tokenFile).toBe(`${workdir ?? ''}/${keyFolder}/${tokenFileName}`)
})

test('all ports are open on this machine alone', () => {
  const ports = all.flatMap((name) => compose.services[name]?.ports ?? [])
  expect(ports.length).toBe(4)
  for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:(\d+):\1$/)
  expect(compose.services['daemon']?.ports).toEqual([`127.0.0.1:${config.server.port}:${config.server.port}`])
})

test('the daemon calls the sandbox as that is played', () => {
  expect(sandbox.publicOrigin).toBe(`http://sandbox:${sandbox.port}`)
  expect(sandbox.host).toBe('0.0.0.0')
  expect(config.platform).toMatchObject({ baseUrl: sandbox.publicOrigin, timeZone: 'UTC', allowInsecure: true })
  expect(config.auth).toMatchObject({
    authUrl: sandbox.publicOrigin,
    realm: sandbox.realm,
    clientId: sandbox.clientId,
  })
  expect(config.receiver.healthUrl).toBe(`http://sandbox:${sandbox.receiverPort}/health`)
  expect(compose.services['sandbox']?.healthcheck?.test.join(' ')).toContain(`http://127.0.0.1:${sandbox.port}/`)
  expect(read('compose.yaml')).toContain(`http://127.0.0.1:${sandbox.controlPort}/receiver`)
  expect(Object.keys(compose.services['daemon']?.depends_on ?? {})).toEqual(['sandbox'])
})

test('the daemon has as much as in Kubernetes, and time to stop', () => {
  const {
    cap_drop: dropped,
    mem_limit: memory,
    read_only: readOnly,
    stop_grace_period: grace,
  } = compose.services['daemon'] ?? {}
  expect({ dropped, memory, readOnly }).toEqual({ dropped: ['ALL'], memory: '512m', readOnly: true })
  expect(Number.parseInt(grace ?? '') * 1000).toBeGreaterThan(config.shutdown.grace + 5000)
})

test('Prometheus scrapes the daemon under the name that the rules know, and reports to Alertmanager', () => {
  expect(at(prometheus, 'scrape_configs')).toEqual([
    { job_name: 'webhook-reconciler', static_configs: [{ targets: [`daemon:${config.server.port}`] }] },
  ])
  expect(at(prometheus, 'alerting', 'alertmanagers', 0, 'static_configs', 0, 'targets')).toEqual(['alertmanager:9093'])
  const [rules = ''] = at(prometheus, 'rule_files') as string[]
  expect(fileIn('prometheus', rules)).toBe(readFileSync(join(root, 'config/prometheus/alerts.yaml'), 'utf8'))
})

test('Grafana has Prometheus as its source, and the dashboard', () => {
  const sources: unknown = parse(fileIn('grafana', '/etc/grafana/provisioning/datasources/prometheus.yaml'))
  const source = at(sources, 'datasources', 0)
  expect(source).toMatchObject({ type: 'prometheus', url: 'http://prometheus:9090', isDefault: true })
  expect(at(source, 'jsonData', 'timeInterval')).toBe(at(prometheus, 'global', 'scrape_interval'))
  const providers: unknown = parse(fileIn('grafana', '/etc/grafana/provisioning/dashboards/webhook-reconciler.yaml'))
  const mounted = mountsOf('grafana').find(({ target }) => target.endsWith('.json'))
  expect(dirname(mounted?.target ?? '')).toBe(at(providers, 'providers', 0, 'options', 'path'))
  expect(mounted?.source).toBe(join(root, 'config/grafana/dashboard.json'))
  expect(read('compose.yaml')).toContain(`http://127.0.0.1:3000/d/${readDashboard().uid}`)
})
