// The Kubernetes manifest: whatever it names has to exist here.
import { readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { z } from 'zod'
import { fileVariable } from '../../src/config/key.ts'
import { loadConfig, loadSections, type ConfigInput } from '../../src/config/load.ts'
import { keys } from '../../src/config/schema.ts'

const text = readFileSync(join(import.meta.dirname, '../../config/kubernetes/sidecar.yaml'), 'utf8')

const probe = z.object({ httpGet: z.object({ path: z.string(), port: z.string() }) })
const container = z.object({
  name: z.string(),
  args: z.array(z.string()).default([]),
  env: z.array(z.object({ name: z.string(), value: z.string().optional() })).default([]),
  ports: z.array(z.object({ name: z.string(), containerPort: z.int() })),
  startupProbe: probe.optional(),
  livenessProbe: probe.optional(),
  readinessProbe: probe.optional(),
  resources: z.unknown().optional(),
  securityContext: z.record(z.string(), z.unknown()).optional(),
  volumeMounts: z
    .array(z.object({ name: z.string(), mountPath: z.string(), readOnly: z.boolean(), subPath: z.string().optional() }))
    .default([]),
})
const configMap = z.object({
  kind: z.literal('ConfigMap'),
  metadata: z.object({ name: z.string() }),
  data: z.record(z.string(), z.string()),
})
const deployment = z.object({
  kind: z.literal('Deployment'),
  spec: z.object({
    selector: z.object({ matchLabels: z.record(z.string(), z.string()) }),
    template: z.object({
      metadata: z.object({ labels: z.record(z.string(), z.string()), annotations: z.record(z.string(), z.string()) }),
      spec: z.object({
        automountServiceAccountToken: z.boolean(),
        terminationGracePeriodSeconds: z.int(),
        containers: z.array(container),
        volumes: z.array(
          z.object({
            name: z.string(),
            configMap: z.object({ name: z.string() }).optional(),
            secret: z.object({ secretName: z.string() }).optional(),
          }),
        ),
      }),
    }),
  }),
})

const documents = parseAllDocuments(text)
const settings = configMap.parse(documents[0]?.toJSON())
const { spec } = deployment.parse(documents[1]?.toJSON())
const pod = spec.template.spec
const [receiver, reconciler] = pod.containers
if (receiver === undefined || reconciler === undefined) throw new Error('two containers are expected')

const configFile = reconciler.env.find(({ name }) => name === fileVariable)?.value ?? ''
const tokenFile = reconciler.env.find(({ name }) => name === 'RECONCILER_CONTROL_TOKEN_FILE')?.value ?? ''
const files = new Map([
  [configFile, settings.data['config.yaml'] ?? ''],
  [tokenFile, `${'ab'.repeat(32)}\n`],
])
const input: ConfigInput = {
  env: Object.fromEntries(reconciler.env.map(({ name, value }) => [name, value ?? 'from-elsewhere'])),
  hostName: 'pod',
  readFile(path) {
    const content = files.get(path)
    if (content === undefined) throw Object.assign(new Error(path), { code: 'ENOENT' })
    return content
  },
}
const { config } = loadConfig(input)

describe('sidecar.yaml', () => {
  test('is YAML without warnings', () => {
    expect(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([])
    expect(documents).toHaveLength(2)
  })

  test('it runs the daemon with the file of the config map', () => {
    expect(reconciler.args).toEqual(['run'])
    expect(Object.keys(settings.data)).toEqual([basename(configFile)])
  })

  test('its variables are keys', () => {
    const variables = new Set([fileVariable, ...keys.flatMap(({ environment, fileTwin }) => [environment, fileTwin])])
    expect(reconciler.env.filter(({ name }) => !variables.has(name))).toEqual([])
  })

  test('its pause and resume find token and address by the same variables', () => {
    expect(loadSections(input, ['control', 'server']).config).toEqual({
      control: { allowRemote: false, token: 'ab'.repeat(32) },
      server: config.server,
    })
    expect(text).toContain(`--from-file=${basename(tokenFile)}`)
  })

  test('its ports are those that the daemon listens on', () => {
    expect(reconciler.ports).toEqual([{ name: 'metrics', containerPort: config.server.port }])
    expect(spec.template.metadata.annotations).toEqual({
      'prometheus.io/scrape': 'true',
      'prometheus.io/port': String(config.server.port),
      'prometheus.io/path': '/metrics',
    })
  })

  test('only liveness is asked of it: its readiness would decide over the receiver', () => {
    const asked = { httpGet: { path: '/livez', port: 'metrics' } }
    expect(reconciler.startupProbe).toEqual(asked)
    expect(reconciler.livenessProbe).toEqual(asked)
    expect(reconciler.readinessProbe).toBeUndefined()
    expect(text).toContain('path: /readyz')
  })

  test('the pod waits longer than the daemon takes to stop', () => {
    expect(pod.terminationGracePeriodSeconds * 1000).toBeGreaterThan(config.shutdown.grace + 5000)
  })

  test('the files that it names lie in what is mounted, whole and read-only', () => {
    const mounts = reconciler.volumeMounts
    expect(mounts.map(({ readOnly, subPath }) => [readOnly, subPath])).toEqual(mounts.map(() => [true, undefined]))
    const paths = [configFile, config.auth.privateKeyFile, tokenFile]
    const places = paths.map((path) => mounts.findIndex(({ mountPath }) => mountPath === dirname(path ?? '')))
    expect(places).toEqual([0, 1, 1])
    expect(mounts.map(({ name }) => name)).toEqual(pod.volumes.map(({ name }) => name))
    expect(pod.volumes[0]?.configMap?.name).toBe(settings.metadata.name)
    expect(receiver.volumeMounts).toEqual([])
  })

  test('no token of the Kubernetes API is mounted into it', () => {
    expect(pod.automountServiceAccountToken).toBe(false)
  })

  test('it runs without root, writes nothing and may nothing', () => {
    expect(reconciler.securityContext).toEqual({
      runAsNonRoot: true,
      runAsUser: 1000,
      runAsGroup: 1000,
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      seccompProfile: { type: 'RuntimeDefault' },
    })
    expect(reconciler.resources).toMatchObject({ requests: { memory: '192Mi' }, limits: { memory: '512Mi' } })
  })

  test('the selector finds the pod', () => {
    expect(spec.template.metadata.labels).toMatchObject(spec.selector.matchLabels)
  })
})
