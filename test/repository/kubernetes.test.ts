// The Kubernetes manifests: the API takes them, and each name in them exists in this repository.
import { podFolder } from '../../src/leader-election/lease-client.ts'
import { basename, dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { fileVariable } from '../../src/config/key.ts'
import { loadConfig, loadSections } from '../../src/config/load.ts'
import { neededMemoryMiB } from '../../src/runtime/memory.ts'
import { problemsOfManifest } from '../support/kubernetes-schemas.ts'
import {
  controlToken,
  folder,
  hasKubectl,
  inputOf,
  isSelected,
  only,
  podsOf,
  readManifests,
  readMonitor,
  readOverlay,
  renderOverlay,
  secret,
  secretKeys,
  specOf,
  targetOf,
  withCompare,
  type Deployment,
  type NetworkPolicy,
} from '../support/overlays.ts'
import { describeWith } from '../support/needs.ts'
import { read } from './texts.ts'
import { readDashboard } from './dashboard.ts'

const overlays = ['deployment', 'sidecar'] as const

/** What Pod Security `restricted` wants of each container, and what it is indifferent to. Each further key would have to be judged by it. */
const restricted = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
  runAsNonRoot: true,
  seccompProfile: { type: 'RuntimeDefault' },
}
const contextKeys = ['readOnlyRootFilesystem', 'runAsGroup', 'runAsUser']
const volumeKeys = ['configMap', 'emptyDir', 'name', 'persistentVolumeClaim', 'projected', 'secret']
const podKeys = [
  ...['automountServiceAccountToken', 'containers', 'enableServiceLinks', 'initContainers', 'restartPolicy'],
  ...['serviceAccountName', 'terminationGracePeriodSeconds', 'volumes'],
]

const alerts = read('config/prometheus/alerts.yaml')
const { version } = JSON.parse(read('package.json')) as { version: string }

describeWith(
  hasKubectl ? undefined : 'kubectl 1.21 or newer is not installed',
  'what kubectl renders',
  describeOverlays,
)

function describeOverlays(): void {
  describe.each(overlays)('overlay %s', (name) => {
    const overlay = readOverlay(name)
    const { daemon, deployment: spec, manifests, pod, policy, settings } = overlay
    const input = inputOf(overlay)
    // A variable that is no key is refused.
    const { config } = loadConfig(input)

    test('the API takes each object, and knows each of its fields', () => {
      expect(manifests.flatMap(problemsOfManifest)).toEqual([])
      expect(new Set(manifests.map(({ metadata }) => metadata.namespace))).toEqual(new Set([secret.metadata.namespace]))
      // It would replace the real one.
      expect(manifests.map(({ kind }) => kind)).not.toContain('Secret')
    })

    test('it runs the daemon with the file of the config map', () => {
      expect(daemon.args).toEqual(['run'])
      expect(Object.keys(settings.data)).toEqual([basename(input.env[fileVariable] ?? '')])
      // Its pause and resume find token and address by the same variables.
      const control = { allowRemote: false, token: controlToken }
      expect(loadSections(input, ['control', 'server']).config).toEqual({ control, server: config.server })
    })

    test('what its config map has as a comment can be used', () => {
      const used = settings.data['config.yaml']?.replace(/^# (receiver:|  \w+:)/gm, '$1') ?? ''
      const readFile = (path: string): string => (path === input.env[fileVariable] ? used : input.readFile(path))
      expect(config.receiver.healthUrl).toBeUndefined()
      expect(loadConfig({ ...input, readFile }).config.receiver.healthUrl).toMatch(/^http:.*\.svc:/)
    })

    test('it is asked at the port that it listens on, whose name is its alone; it has time to stop', () => {
      expect(daemon.ports).toEqual([{ name: 'reconciler', containerPort: config.server.port }])
      const names = pod.containers.flatMap((candidate) => candidate.ports.map((port) => port.name))
      expect(new Set(names).size).toBe(names.length)
      const httpGet = { path: '/livez', port: 'reconciler' }
      expect(daemon).toMatchObject({ startupProbe: { httpGet }, livenessProbe: { httpGet } })
      expect(pod.terminationGracePeriodSeconds * 1000).toBeGreaterThanOrEqual(config.shutdown.grace + 10_000)
    })

    test('the files that it names lie in what is mounted, whole and read-only, into its container alone', () => {
      const mounts = daemon.volumeMounts ?? []
      expect(mounts.map(({ readOnly, subPath }) => [readOnly, subPath])).toEqual(mounts.map(() => [true, undefined]))
      const sources = pod.volumes.map((volume) => [volume.name, volume.configMap?.name ?? volume.secret?.secretName])
      const found = (path: string | undefined): unknown => {
        const mount = mounts.find(({ mountPath }) => mountPath === dirname(path ?? ''))
        return sources.find(([volume]) => volume === mount?.name)?.[1]
      }
      expect(found(input.env[fileVariable])).toBe(settings.metadata.name)
      // A change has another name, which replaces the pods.
      expect(settings.metadata.name).toMatch(/-[a-z0-9]{10}$/)
      const secretFiles = [config.auth.privateKeyFile, input.env['RECONCILER_CONTROL_TOKEN_FILE']]
      expect(secretFiles.map(found)).toEqual([secret.metadata.name, secret.metadata.name])
      expect(secretFiles.map((path) => basename(path ?? ''))).toEqual(secretKeys)
      expect(mounts.map((mount) => mount.name)).toEqual(pod.volumes.map((volume) => volume.name))
      for (const other of pod.containers) if (other !== daemon) expect(other).not.toHaveProperty('volumeMounts')
    })

    test('the daemon is reached by the namespace of the monitoring alone', () => {
      const rules = policy.ingress.filter((rule) => rule.ports.some(({ port }) => port === config.server.port))
      const monitoring = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }
      expect(rules).toEqual([{ from: [monitoring], ports: [{ protocol: 'TCP', port: config.server.port }] }])
    })

    test('each selector finds the pod; it is scraped under a job that the alert for a target that was never up knows', () => {
      for (const { matchLabels } of [spec.selector, readMonitor().selector, policy.podSelector]) {
        expect(spec.template.metadata.labels).toMatchObject(matchLabels)
      }
      // The rules look back by minutes.
      expect(readMonitor()).toMatchObject({
        namespaceSelector: { any: true },
        podMetricsEndpoints: [{ port: 'reconciler', path: '/metrics', interval: '30s' }],
      })
      const target = targetOf(overlay)
      expect(target).toEqual({ job: 'webhooks/webhook-reconciler', instance: 'pod-1' })
      const [, job = ''] = /up\{job=~"([^"]+)"\}/.exec(alerts) ?? []
      expect(target['job']).toMatch(new RegExp(`^(?:${job})$`))
    })
  })

  test('monitoring brings rules and dashboard, once for all overlays', () => {
    const manifests = renderOverlay(join(folder, 'monitoring'))
    expect(manifests.flatMap(problemsOfManifest)).toEqual([])
    expect(only(manifests, 'PrometheusRule')['spec']).toEqual(parse(alerts))
    const { data } = only(manifests, 'ConfigMap') as { data?: Record<string, string> }
    expect(Object.values(data ?? {}).map((text) => JSON.parse(text) as unknown)).toEqual([readDashboard()])
    const kinds = [...overlays, 'issuers'].flatMap((name) => renderOverlay(join(folder, name)).map(({ kind }) => kind))
    expect(kinds).not.toContain('PrometheusRule')
    expect(kinds).not.toContain('PodMonitor')
  })

  test('deployment: one pod at a time, without a lease; it is asked for its readiness, and reaches names and HTTPS alone', () => {
    const overlay = readOverlay('deployment')
    const { daemon, deployment: spec, pod, policy } = overlay
    expect(spec).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } })
    expect(pod.containers).toEqual([daemon])
    expect(loadConfig(inputOf(overlay)).config.leaderElection.kind).toBe('none')
    expect(pod.serviceAccountName).toBeUndefined()
    expect(daemon).toMatchObject({ readinessProbe: { httpGet: { path: '/readyz', port: 'reconciler' } } })
    expect(policy.policyTypes).toEqual(['Ingress', 'Egress'])
    const reached = policy.egress?.flatMap((rule) => rule.ports.map(({ port, protocol }) => `${protocol} ${port}`))
    expect(reached).toEqual(['UDP 53', 'TCP 53', 'TCP 443'])
  })

  describe('overlay sidecar', () => {
    const overlay = readOverlay('sidecar')
    const { daemon, deployment: spec, manifests, pod, policy } = overlay
    const { leaderElection } = loadConfig(inputOf(overlay)).config
    const receiver = pod.containers.find((candidate) => candidate !== daemon)

    test('the receiver stays as it was: labels, reachability, readiness, first for kubectl', () => {
      const own = specOf<Deployment>(readManifests(join(folder, 'sidecar/receiver.yaml')), 'Deployment')
      const { annotations, labels } = spec.template.metadata
      const before = own.template.metadata.labels
      const added = Object.keys(labels).filter((label) => labels[label] !== before[label])
      expect(added).toEqual(['webhook-reconciler', 'webhook-reconciler/instance'])
      expect(pod.containers).toHaveLength(2)
      expect(policy.policyTypes).toEqual(['Ingress'])
      const open = policy.ingress.filter(({ from }) => from === undefined).flatMap((rule) => rule.ports)
      expect(open.map(({ port }) => port)).toEqual(receiver?.ports.map(({ containerPort }) => containerPort))
      expect(daemon).not.toHaveProperty('readinessProbe')
      expect(spec.strategy).toEqual({ type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0 } })
      expect(annotations?.['kubectl.kubernetes.io/default-container']).toBe(receiver?.name)
    })

    test('several pods share a lease, which their account may read, make and write, and nothing else', () => {
      expect(spec.replicas).toBeGreaterThan(1)
      expect(leaderElection).toMatchObject({ kind: 'kubernetes' })
      const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] }
      expect(only(manifests, 'Role')['rules']).toEqual([
        { ...leases, resourceNames: [leaderElection.leaseName], verbs: ['get', 'update'] },
        { ...leases, verbs: ['create'] },
      ])
      const { name, namespace } = only(manifests, 'ServiceAccount').metadata
      expect(pod.serviceAccountName).toBe(name)
      expect(only(manifests, 'RoleBinding')).toMatchObject({
        roleRef: { kind: 'Role', name: only(manifests, 'Role').metadata.name },
        subjects: [{ kind: 'ServiceAccount', name, namespace }],
      })
    })

    test("the daemon finds the account's token, authority and namespace where it looks for them", () => {
      const mount = daemon.volumeMounts?.find(({ mountPath }) => mountPath === podFolder)
      const volume = pod.volumes.find((candidate) => candidate.name === mount?.name)
      expect(volume?.projected?.sources).toEqual([
        { serviceAccountToken: { path: 'token', expirationSeconds: 3600 } },
        { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
        { downwardAPI: { items: [{ path: 'namespace', fieldRef: { fieldPath: 'metadata.namespace' } }] } },
      ])
    })
  })

  describe('three issuers in one namespace, each with the nightly comparison', () => {
    const names = ['eu', 'uk', 'us'] as const
    const issuers = names.map((name) => readOverlay(`issuers/${name}`))
    const manifests = withCompare((copy) => renderOverlay(join(copy, 'issuers')))
    const own = names.map((name) => `webhook-reconciler-${name}`)
    const makers = manifests.filter((manifest) => podsOf(manifest).length > 0)

    test('the API takes each object, and no two have the same name', () => {
      expect(manifests.flatMap(problemsOfManifest)).toEqual([])
      expect(new Set(manifests.map(({ metadata }) => metadata.namespace)).size).toBe(1)
      expect(new Set(manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).size).toBe(manifests.length)
    })

    test.each(own)('%s: both of its pods mount its own configuration and Secret', (name) => {
      const pods = makers
        .flatMap(podsOf)
        .filter(({ metadata }) => metadata.labels['webhook-reconciler/instance'] === name)
      expect(pods).toHaveLength(2)
      for (const { spec } of pods) {
        expect(spec.volumes.flatMap(({ secret: mounted }) => mounted?.secretName ?? [])).toEqual([name])
        const [config] = spec.volumes.flatMap(({ configMap }) => configMap?.name ?? [])
        const { data } = manifests.find(({ metadata }) => metadata.name === config) ?? only([], 'ConfigMap')
        expect((data as Record<string, string>)['config.yaml']).toContain(`your-instance${name.slice(-3)}\n`)
      }
    })

    test('one network policy selects each pod, and a Deployment its own alone', () => {
      const policies = manifests.filter(({ kind }) => kind === 'NetworkPolicy')
      const deployments = manifests.filter(({ kind }) => kind === 'Deployment')
      for (const maker of makers) {
        const labels = podsOf(maker)[0]?.metadata.labels ?? {}
        expect(policies.filter(({ spec }) => isSelected((spec as NetworkPolicy).podSelector, labels))).toHaveLength(1)
        const owners = deployments.filter(({ spec }) => isSelected((spec as Deployment).selector, labels))
        expect(owners).toEqual(maker.kind === 'Deployment' ? [maker] : [])
      }
    })

    test('each daemon has a scrape job, an address of the platform and a Lease of its own', () => {
      expect(issuers.map(targetOf).map(({ job }) => job)).toEqual(own.map((name) => `webhooks/${name}`))
      const configs = issuers.map((issuer) => loadConfig(inputOf(issuer)).config)
      expect(new Set(configs.map(({ platform }) => platform.baseUrl)).size).toBe(3)
      expect(configs[2]?.leaderElection).toMatchObject({ kind: 'kubernetes', leaseName: 'webhook-reconciler-us' })
      const { rules } = only(issuers[2]?.manifests ?? [], 'Role')
      expect(rules).toContainEqual(expect.objectContaining({ resourceNames: ['webhook-reconciler-us'] }))
    })

    test('a namespace that enforces Pod Security `restricted` takes each pod', () => {
      for (const { spec } of makers.flatMap(podsOf)) {
        const containers = [...(spec.initContainers ?? []), ...spec.containers]
        for (const { securityContext = {} } of containers) {
          expect(securityContext).toMatchObject(restricted)
          expect([...contextKeys, ...Object.keys(restricted)]).toEqual(
            expect.arrayContaining(Object.keys(securityContext)),
          )
        }
        expect(podKeys).toEqual(expect.arrayContaining(Object.keys(spec)))
        expect(volumeKeys).toEqual(expect.arrayContaining(spec.volumes.flatMap(Object.keys)))
        expect(JSON.stringify(containers)).not.toMatch(/"host(?:Port)?":/)
      }
    })

    test('what is ours writes nothing, asks no API with a token of the pod, and names its version', () => {
      const pods = makers.flatMap(podsOf)
      expect(pods.map(({ spec }) => spec)).toEqual(
        pods.map(
          () => expect.objectContaining({ automountServiceAccountToken: false, enableServiceLinks: false }) as object,
        ),
      )
      const ours = pods
        .flatMap(({ spec }) => spec.containers)
        .filter(({ image }) => image.includes('webhook-reconciler:'))
      expect(ours).toHaveLength(6)
      for (const { image, resources, securityContext } of ours) {
        expect(image).toBe(`registry.example.com/webhook-reconciler:${version}`)
        expect(securityContext).toMatchObject({ readOnlyRootFilesystem: true, runAsUser: 1000, runAsGroup: 1000 })
        expect(resources).toMatchObject({ requests: { 'ephemeral-storage': '64Mi' } })
      }
      // The pod of a sidecar is the receiver's: its version stands there.
      const versions = makers.map(({ kind, metadata }) => [kind, metadata.labels?.['app.kubernetes.io/version']])
      expect(versions.filter(([, named]) => named !== version)).toEqual([['Deployment', undefined]])
    })

    test('a comparison ends in time, and once', () => {
      const jobs = manifests.filter(({ kind }) => kind === 'CronJob').map(({ spec }) => spec)
      expect(jobs).toHaveLength(3)
      const jobTemplate = { spec: { backoffLimit: 0, activeDeadlineSeconds: 7200, ttlSecondsAfterFinished: 172_800 } }
      const expected = { concurrencyPolicy: 'Forbid', startingDeadlineSeconds: 600, timeZone: 'Etc/UTC', jobTemplate }
      for (const job of jobs) expect(job).toMatchObject(expected)
    })
  })
}

const container = read('config/kubernetes/base/container.yaml')

test('the API takes secret.example.yaml, and its comment makes the same keys', () => {
  expect(problemsOfManifest(secret)).toEqual([])
  const [, command = ''] =
    /(kubectl create secret generic .*)/.exec(read('config/kubernetes/secret.example.yaml')) ?? []
  expect(Array.from(command.matchAll(/--from-file=(\S+)/g), ([, file]) => file)).toEqual(secretKeys)
  expect(command).toContain(`generic ${secret.metadata.name} --namespace ${secret.metadata.namespace ?? ''} `)
})

test('the memory that the manifests and the documents name is the one that the daemon warns below', () => {
  const { backlog } = loadSections({ env: {}, hostName: 'pod', readFile: () => '' }, ['backlog']).config
  const [least = 0, million = 0] = [backlog.maxRecords, 1_000_000].map(neededMemoryMiB)
  const [twenty = 0, thirty = 0] = [20_000, 31_000].map(neededMemoryMiB)
  expect(container.replaceAll(/\s+#?\s*/g, ' ')).toContain(
    `${least}Mi is the least with backlog.maxRecords at its default of ${backlog.maxRecords}, ${twenty}Mi with 20000`,
  )
  expect(read('docs/operations.md').replaceAll(/\s+/g, ' ')).toContain(
    `${least} MiB with the default of 200,000 records, ${twenty} MiB with 20,000, ${million} MiB with a million (computed, not measured). A container of ${thirty} MiB holds 31,000.`,
  )
  expect(read('README.md')).toContain(`${least} MiB hold 200,000 failed records, ${thirty} MiB 31,000 `)
  // The limit has room for the daemon, and for a command in its container.
  const [, limit] = /limits:\s+memory: (\d+)Mi/.exec(container) ?? []
  expect(Number(limit)).toBeGreaterThanOrEqual(2 * least)
})

test.each<[problem: string, change: (spec: object) => void]>([
  ['/spec/replica: the API has no such field', (spec) => Object.assign(spec, { replica: 1 })],
  ['replicas', (spec) => Object.assign(spec, { replicas: 'one' })],
  ['selector', (spec) => Reflect.deleteProperty(spec, 'selector')],
])('the check of manifests finds %s', (problem, change) => {
  const manifest = structuredClone(only(readManifests(join(folder, 'sidecar/receiver.yaml')), 'Deployment'))
  change(manifest['spec'] as object)
  expect(problemsOfManifest(manifest)).toEqual([expect.stringContaining(problem)])
})
