// The Kubernetes manifests: the API takes them, and each name in them exists in this repository.
import { readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { fileVariable } from '../../src/config/key.ts'
import { loadConfig, loadSections } from '../../src/config/load.ts'
import { keys } from '../../src/config/schema.ts'
import { neededMemoryMiB } from '../../src/runtime/memory.ts'
import { problemsOfManifest } from '../support/kubernetes-schemas.ts'
import { hasKubectl, readManifests, renderOverlay } from '../support/kustomize.ts'
import {
  controlToken,
  deploymentLabels,
  folder,
  inputOf,
  only,
  readMonitor,
  readOverlay,
  role,
  root,
  secret,
  secretKeys,
  targetOf,
} from '../support/overlays.ts'
import { describeWith } from '../support/needs.ts'

const overlays = ['deployment', 'sidecar'] as const

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
    const { config } = loadConfig(input)
    const labelsOfPod = Object.entries(spec.template.metadata.labels)

    test('the API takes each object, and knows each of its fields', () => {
      expect(manifests.flatMap(problemsOfManifest)).toEqual([])
    })

    test('it runs the daemon of this version with the file of the config map', () => {
      const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
      expect(daemon.image).toMatch(new RegExp(`/webhook-reconciler:${version}$`))
      expect(daemon.args).toEqual(['run'])
      expect(Object.keys(settings.data)).toEqual([basename(input.env[fileVariable] ?? '')])
    })

    test('what its config map has as a comment can be used', () => {
      const text = settings.data['config.yaml'] ?? ''
      const used = text.replace(/^# (receiver:|  \w+:)/gm, '$1')
      const { config: changed } = loadConfig({
        ...input,
        readFile: (path) => (path === input.env[fileVariable] ? used : input.readFile(path)),
      })
      expect(config.receiver.healthUrl).toBeUndefined()
      expect(changed.receiver.healthUrl).toMatch(/^http:.*\.svc:/)
    })

    test('its variables are keys', () => {
      const variables = new Set([fileVariable, ...keys.flatMap(({ environment, fileTwin }) => [environment, fileTwin])])
      expect(daemon.env.filter((variable) => !variables.has(variable.name))).toEqual([])
    })

    test('its pause and resume find token and address by the same variables', () => {
      expect(loadSections(input, ['control', 'server']).config).toEqual({
        control: { allowRemote: false, token: controlToken },
        server: config.server,
      })
    })

    test('its port is the one that the daemon listens on, and the name is its alone', () => {
      expect(daemon.ports).toEqual([{ name: 'reconciler', containerPort: config.server.port }])
      const names = pod.containers.flatMap((candidate) => candidate.ports.map((port) => port.name))
      expect(new Set(names).size).toBe(names.length)
    })

    test('liveness is asked of it, with time to start', () => {
      const httpGet = { path: '/livez', port: 'reconciler' }
      expect(daemon.startupProbe).toEqual({ httpGet, periodSeconds: 2, timeoutSeconds: 1, failureThreshold: 30 })
      expect(daemon.livenessProbe).toEqual({ httpGet, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 3 })
    })

    test('the pod waits longer than the daemon takes to stop', () => {
      expect(pod.terminationGracePeriodSeconds * 1000).toBeGreaterThan(config.shutdown.grace + 5000)
    })

    test('the files that it names lie in what is mounted, whole and read-only, into its container alone', () => {
      const mounts = daemon.volumeMounts
      expect(mounts.map(({ readOnly, subPath }) => [readOnly, subPath])).toEqual(mounts.map(() => [true, undefined]))
      const sources = pod.volumes.map((volume) => [volume.name, volume.configMap?.name ?? volume.secret?.secretName])
      const found = (path: string | undefined): unknown => {
        const mount = mounts.find(({ mountPath }) => mountPath === dirname(path ?? ''))
        return sources.find(([volume]) => volume === mount?.name)?.[1]
      }
      expect(found(input.env[fileVariable])).toBe(settings.metadata.name)
      const secretFiles = [config.auth.privateKeyFile, input.env['RECONCILER_CONTROL_TOKEN_FILE']]
      expect(secretFiles.map(found)).toEqual([secret.metadata.name, secret.metadata.name])
      expect(secretFiles.map((path) => basename(path ?? ''))).toEqual(secretKeys)
      expect(mounts.map((mount) => mount.name)).toEqual(pod.volumes.map((volume) => volume.name))
      for (const other of pod.containers) if (other !== daemon) expect(other.volumeMounts).toEqual([])
    })

    test('the secret is no part of it, so that it never replaces the real one', () => {
      expect(manifests.map(({ kind }) => kind)).not.toContain('Secret')
      expect(new Set(manifests.map(({ metadata }) => metadata.namespace))).toEqual(new Set([secret.metadata.namespace]))
    })

    test('no token of the Kubernetes API is mounted by itself, and no variables of Services', () => {
      expect(pod).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false })
    })

    test('it runs without root, writes nothing and may nothing', () => {
      expect(daemon.securityContext).toEqual({
        runAsNonRoot: true,
        runAsUser: 1000,
        runAsGroup: 1000,
        readOnlyRootFilesystem: true,
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        seccompProfile: { type: 'RuntimeDefault' },
      })
      expect(daemon.resources).toEqual({ requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '512Mi' } })
    })

    test('each selector finds the pod', () => {
      for (const { matchLabels } of [spec.selector, readMonitor().selector, policy.podSelector]) {
        expect(labelsOfPod).toEqual(expect.arrayContaining(Object.entries(matchLabels)))
      }
    })

    test('the daemon is reached by the namespace of the monitoring alone', () => {
      const rules = policy.ingress.filter((rule) => rule.ports.some(({ port }) => port === config.server.port))
      const monitoring = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }
      expect(rules).toEqual([{ from: [monitoring], ports: [{ protocol: 'TCP', port: config.server.port }] }])
    })

    test('it is scraped under a job that the alert for a target that was never up knows', () => {
      const { namespaceSelector, podMetricsEndpoints } = readMonitor()
      const [endpoint] = podMetricsEndpoints
      expect([podMetricsEndpoints.length, namespaceSelector]).toEqual([1, { any: true }])
      // The rules look back by minutes.
      expect(endpoint).toMatchObject({ port: 'reconciler', path: '/metrics', interval: '30s' })
      const target = targetOf(overlay)
      expect(target).toEqual({ job: 'webhooks/webhook-reconciler', instance: 'pod-1' })
      const alerts = readFileSync(join(root, 'config/prometheus/alerts.yaml'), 'utf8')
      const [, job = ''] = /up\{job=~"([^"]+)"\}/.exec(alerts) ?? []
      expect(target['job']).toMatch(new RegExp(`^(?:${job})$`))
    })
  })

  test('monitoring brings the rules of config/prometheus, once for all overlays', () => {
    const rules: unknown = parse(readFileSync(join(root, 'config/prometheus/alerts.yaml'), 'utf8'))
    const manifests = renderOverlay(join(folder, 'monitoring'))
    expect(manifests.flatMap(problemsOfManifest)).toEqual([])
    expect(only(manifests, 'PrometheusRule')['spec']).toEqual(rules)
    const kinds = [...overlays, 'issuers'].flatMap((name) => renderOverlay(join(folder, name)).map(({ kind }) => kind))
    expect(kinds).not.toContain('PrometheusRule')
    expect(kinds).not.toContain('PodMonitor')
  })

  describe('overlay deployment', () => {
    const { daemon, deployment: spec, pod, policy } = readOverlay('deployment')

    test('one pod at a time, with nothing else in it', () => {
      expect(spec).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } })
      expect(pod.containers).toEqual([daemon])
    })

    test('it works without a lease, and so without an account', () => {
      expect(loadConfig(inputOf(readOverlay('deployment'))).config.leaderElection.kind).toBe('none')
      expect(pod.serviceAccountName).toBeUndefined()
    })

    test('its readiness is asked', () => {
      expect(daemon.readinessProbe).toMatchObject({ httpGet: { path: '/readyz', port: 'reconciler' } })
    })

    test('it reaches names and HTTPS, nothing else', () => {
      expect(policy.policyTypes).toEqual(['Ingress', 'Egress'])
      const reached = (policy.egress ?? []).flatMap((rule) =>
        rule.ports.map(({ port, protocol }) => `${protocol} ${port}`),
      )
      expect(reached).toEqual(['UDP 53', 'TCP 53', 'TCP 443'])
    })
  })

  describe('overlay sidecar', () => {
    const overlay = readOverlay('sidecar')
    const { daemon, deployment: spec, manifests, pod, policy } = overlay
    const { leaderElection } = loadConfig(inputOf(overlay)).config
    const receiver = pod.containers.find((candidate) => candidate !== daemon)

    test('its labels replace none of the receiver, whatever that has', () => {
      const own = readManifests(join(folder, 'sidecar/receiver.yaml')).find(({ kind }) => kind === 'Deployment')
      const before = deploymentLabels(own)
      const added = Object.entries(spec.template.metadata.labels).filter(([label, value]) => before[label] !== value)
      expect(added.map(([label]) => label)).toEqual(['webhook-reconciler', 'webhook-reconciler/instance'])
    })

    test('the receiver stays as reachable as it was', () => {
      expect(pod.containers).toHaveLength(2)
      expect(policy.policyTypes).toEqual(['Ingress'])
      const open = policy.ingress.filter(({ from }) => from === undefined).flatMap((rule) => rule.ports)
      expect(open.map(({ port }) => port)).toEqual(receiver?.ports.map(({ containerPort }) => containerPort))
    })

    test('its readiness is not asked, as it would decide over the receiver', () => {
      expect(daemon.readinessProbe).toBeUndefined()
      expect(spec.strategy).toEqual({ type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0 } })
    })

    test('several pods share a lease, which their account may read, make and write, and nothing else', () => {
      expect(spec.replicas).toBeGreaterThan(1)
      expect(leaderElection).toMatchObject({ kind: 'kubernetes', namespace: undefined })
      const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] }
      expect(role.parse(only(manifests, 'Role')).rules).toEqual([
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
      const mount = daemon.volumeMounts.find(({ mountPath }) => mountPath === leaderElection.serviceAccountDirectory)
      const volume = pod.volumes.find((candidate) => candidate.name === mount?.name)
      expect(volume?.projected?.sources).toEqual([
        { serviceAccountToken: { path: 'token', expirationSeconds: 3600 } },
        { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
        { downwardAPI: { items: [{ path: 'namespace', fieldRef: { fieldPath: 'metadata.namespace' } }] } },
      ])
    })

    test('kubectl shows the receiver first', () => {
      const { annotations } = spec.template.metadata
      expect(annotations['kubectl.kubernetes.io/default-container']).toBe(receiver?.name)
    })
  })

  describe('three issuers in one namespace', () => {
    const names = ['eu', 'uk', 'us'] as const
    const issuers = names.map((name) => readOverlay(`issuers/${name}`))

    test('the API takes each object, and no two have the same name', () => {
      const manifests = renderOverlay(join(folder, 'issuers'))
      expect(manifests).toHaveLength(issuers.reduce((sum, issuer) => sum + issuer.manifests.length, 0))
      expect(manifests.flatMap(problemsOfManifest)).toEqual([])
      expect(new Set(manifests.map(({ metadata }) => metadata.namespace)).size).toBe(1)
      expect(new Set(manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).size).toBe(manifests.length)
    })

    test('each selector finds the pods of its issuer alone', () => {
      for (const { deployment: spec, policy } of issuers) {
        for (const { matchLabels } of [spec.selector, policy.podSelector]) {
          const found = issuers.filter(({ deployment: { template } }) =>
            Object.entries(matchLabels).every(([label, value]) => template.metadata.labels[label] === value),
          )
          expect(found.map(({ deployment: other }) => other)).toEqual([spec])
        }
      }
    })

    test('each has a configuration, a Secret, a scrape job and a Lease of its own', () => {
      const secrets = issuers.map(({ pod }) => pod.volumes.flatMap(({ secret: mounted }) => mounted?.secretName ?? []))
      expect(secrets).toEqual(names.map((name) => [`webhook-reconciler-${name}`]))
      expect(issuers.map(targetOf).map(({ job }) => job)).toEqual(
        names.map((name) => `webhooks/webhook-reconciler-${name}`),
      )
      const configs = issuers.map((issuer) => loadConfig(inputOf(issuer)).config)
      expect(new Set(configs.map(({ platform }) => platform.baseUrl)).size).toBe(3)
      expect(configs[2]?.leaderElection).toMatchObject({ kind: 'kubernetes', leaseName: 'webhook-reconciler-us' })
      const [own] = role.parse(only(issuers[2]?.manifests ?? [], 'Role')).rules
      expect(own?.resourceNames).toEqual(['webhook-reconciler-us'])
    })
  })
}

test('the nightly comparison is a CronJob that mounts what the overlays make', () => {
  const job = only(readManifests(join(folder, 'compare/cronjob.yaml')), 'CronJob')
  expect(problemsOfManifest(job)).toEqual([])
  const text = readFileSync(join(folder, 'compare/cronjob.yaml'), 'utf8')
  const container = readFileSync(join(folder, 'base/container.yaml'), 'utf8')
  for (const name of [
    'webhook-reconciler-config',
    'secretName: webhook-reconciler\n',
    '/etc/webhook-reconciler/secret',
  ]) {
    expect([text.includes(name), container.includes(name)]).toEqual([true, true])
  }
})

describe('secret.example.yaml', () => {
  test('the API takes it, and its comment makes the same keys', () => {
    expect(problemsOfManifest(secret)).toEqual([])
    const text = readFileSync(join(folder, 'secret.example.yaml'), 'utf8')
    const [, command = ''] = /(kubectl create secret generic .*)/.exec(text) ?? []
    const files = [...command.matchAll(/--from-file=(\S+)/g)].map(([, file]) => file)
    expect(files).toEqual(secretKeys)
    expect(command).toContain(`generic ${secret.metadata.name} --namespace ${secret.metadata.namespace ?? ''} `)
  })
})

test('the least memory that the manifests and the documents name is the one that the daemon warns below', () => {
  const read = (path: string): string => readFileSync(join(root, path), 'utf8').replace(/\s+#?\s*/g, ' ')
  const nothing = { env: {}, hostName: 'pod', readFile: () => '' }
  const { backlog } = loadSections(nothing, ['backlog']).config
  const [least, hundred, million] = [backlog.maxRecords, 100_000, 1_000_000].map(neededMemoryMiB)
  expect(read('config/kubernetes/base/container.yaml')).toContain(
    `${least}Mi is the least with backlog.maxRecords at its default of ${backlog.maxRecords}, ${hundred}Mi with 100000`,
  )
  expect(read('docs/operations.md')).toContain(
    `${least} MiB with the default of 20,000 records, ${hundred} MiB with 100,000, ${million?.toLocaleString('en')} MiB with a million`,
  )
})

describe('the check of manifests finds', () => {
  const changed = (change: (spec: Record<string, unknown>) => void): string[] => {
    const manifest = structuredClone(only(readManifests(join(folder, 'sidecar/receiver.yaml')), 'Deployment'))
    change(manifest['spec'] as Record<string, unknown>)
    return problemsOfManifest(manifest)
  }

  test('a field that the API does not know, at any depth', () => {
    expect(changed((spec) => (spec['replica'] = 1))).toEqual(['/spec/replica: the API has no such field'])
    const inContainer = changed((spec) => {
      const template = spec['template'] as { spec: { containers: Record<string, unknown>[] } }
      Object.assign(template.spec.containers[0] ?? {}, { readynessProbe: {} })
    })
    expect(inContainer).toEqual(['/spec/template/spec/containers/0/readynessProbe: the API has no such field'])
  })

  test('a value of another type, a missing field, and an unknown kind', () => {
    expect(changed((spec) => (spec['replicas'] = 'one'))).toEqual([expect.stringContaining('replicas')])
    expect(changed((spec) => delete spec['selector'])).toEqual([expect.stringContaining('selector')])
    const unknown = { apiVersion: 'v2', kind: 'Pod', metadata: { name: 'a' } }
    expect(problemsOfManifest(unknown)).toEqual(['v2 Pod: no schema is known here'])
  })
})
