// The overlays of config/kubernetes as kubectl renders them, read as far as tests ask.
import { join } from 'node:path'
import { z } from 'zod'
import { fileVariable } from '../../src/config/key.ts'
import type { ConfigInput } from '../../src/config/load.ts'
import { readManifests, renderOverlay, type Manifest } from './kustomize.ts'

export const folder = join(import.meta.dirname, '../../config/kubernetes')

const container = z.looseObject({
  name: z.string(),
  image: z.string(),
  args: z.array(z.string()).default([]),
  env: z.array(z.object({ name: z.string(), value: z.string().optional() })).default([]),
  ports: z.array(z.object({ name: z.string(), containerPort: z.int() })),
  securityContext: z.record(z.string(), z.unknown()).optional(),
  volumeMounts: z
    .array(z.object({ name: z.string(), mountPath: z.string(), readOnly: z.boolean(), subPath: z.string().optional() }))
    .default([]),
})
const labels = z.record(z.string(), z.string())
const selector = z.object({ matchLabels: labels })
const configMap = z.object({ metadata: z.object({ name: z.string() }), data: z.record(z.string(), z.string()) })
const deployment = z.object({
  spec: z.object({
    replicas: z.int(),
    strategy: z.unknown(),
    selector,
    template: z.object({
      metadata: z.object({ labels, annotations: labels.default({}) }),
      spec: z.object({
        automountServiceAccountToken: z.boolean(),
        enableServiceLinks: z.boolean(),
        serviceAccountName: z.string().optional(),
        terminationGracePeriodSeconds: z.int(),
        containers: z.array(container),
        volumes: z.array(
          z.object({
            name: z.string(),
            configMap: z.object({ name: z.string() }).optional(),
            secret: z.object({ secretName: z.string() }).optional(),
            projected: z.object({ sources: z.array(z.unknown()) }).optional(),
          }),
        ),
      }),
    }),
  }),
})
export const role = z.object({
  rules: z.array(
    z.strictObject({
      apiGroups: z.array(z.string()),
      resources: z.array(z.string()),
      resourceNames: z.array(z.string()).optional(),
      verbs: z.array(z.string()),
    }),
  ),
})
const ports = z.array(z.object({ protocol: z.string(), port: z.int() }))
const networkPolicy = z.object({
  spec: z.object({
    podSelector: selector,
    policyTypes: z.array(z.string()),
    ingress: z.array(z.object({ from: z.array(z.object({ namespaceSelector: selector })).optional(), ports })),
    egress: z.array(z.object({ ports })).optional(),
  }),
})
const podMonitor = z.object({
  spec: z.object({
    namespaceSelector: z.unknown(),
    selector,
    podMetricsEndpoints: z.tuple([
      z.looseObject({
        relabelings: z.array(
          z.object({
            sourceLabels: z.array(z.string()),
            separator: z.string().default(';'),
            targetLabel: z.string(),
            replacement: z.string().default('$1'),
          }),
        ),
      }),
    ]),
  }),
})

export interface Overlay {
  manifests: Manifest[]
  deployment: z.output<typeof deployment>['spec']
  pod: z.output<typeof deployment>['spec']['template']['spec']
  daemon: z.output<typeof container>
  settings: z.output<typeof configMap>
  policy: z.output<typeof networkPolicy>['spec']
}

/** What scrapes the pods of all overlays, applied once in a cluster. */
export const readMonitor = (): z.output<typeof podMonitor>['spec'] =>
  podMonitor.parse(only(renderOverlay(join(folder, 'monitoring')), 'PodMonitor')).spec

/** Labels of a Deployment's pods; the daemon's container may be missing in it. */
export function labelsOf(manifest: Manifest | undefined): Record<string, string> {
  const schema = z.object({ spec: z.object({ template: z.object({ metadata: z.object({ labels }) }) }) })
  return schema.parse(manifest).spec.template.metadata.labels
}

export function only(manifests: readonly Manifest[], kind: string): Manifest {
  const found = manifests.filter((manifest) => manifest.kind === kind)
  if (found.length !== 1 || found[0] === undefined) throw new Error(`${found.length} objects are ${kind}`)
  return found[0]
}

export function readOverlay(name: string): Overlay {
  const manifests = renderOverlay(join(folder, name))
  const { spec } = deployment.parse(only(manifests, 'Deployment'))
  const pod = spec.template.spec
  const daemon = pod.containers.find((candidate) => candidate.name === 'webhook-reconciler')
  if (daemon === undefined) throw new Error(`${name}: the daemon's container is not in the pod`)
  return {
    manifests,
    deployment: spec,
    pod,
    daemon,
    settings: configMap.parse(only(manifests, 'ConfigMap')),
    policy: networkPolicy.parse(only(manifests, 'NetworkPolicy')).spec,
  }
}

export const secret = only(readManifests(join(folder, 'secret.example.yaml')), 'Secret')
export const secretKeys = Object.keys(z.record(z.string(), z.string()).parse(secret['stringData']))
export const controlToken = 'ab'.repeat(32)

/** The daemon's configuration as its container would find it. */
export function inputOf({ daemon, settings }: Overlay): ConfigInput {
  const variable = (name: string): string => daemon.env.find((candidate) => candidate.name === name)?.value ?? ''
  const files = new Map([
    [variable(fileVariable), settings.data['config.yaml'] ?? ''],
    [variable('RECONCILER_CONTROL_TOKEN_FILE'), `${controlToken}\n`],
  ])
  return {
    env: Object.fromEntries(daemon.env.map(({ name, value }) => [name, value ?? 'from-elsewhere'])),
    hostName: 'pod',
    readFile(path) {
      const content = files.get(path)
      if (content === undefined) throw Object.assign(new Error(path), { code: 'ENOENT' })
      return content
    },
  }
}

/** The labels with which Prometheus stores what it scrapes from the pod. */
export function targetOf({ deployment: spec }: Overlay): Record<string, string> {
  const found = {
    __meta_kubernetes_namespace: 'webhooks',
    __meta_kubernetes_pod_name: 'pod-1',
    __meta_kubernetes_pod_label_webhook_reconciler_instance:
      spec.template.metadata.labels['webhook-reconciler/instance'],
  }
  return Object.fromEntries(
    readMonitor().podMetricsEndpoints[0].relabelings.map(({ replacement, separator, sourceLabels, targetLabel }) => [
      targetLabel,
      replacement.replace('$1', sourceLabels.map((label) => Reflect.get(found, label) as string).join(separator)),
    ]),
  )
}
