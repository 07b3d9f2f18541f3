// The overlays of config/kubernetes as kubectl renders them, read as far as tests ask.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { fileVariable } from '../../src/config/key.ts'
import type { ConfigInput } from '../../src/config/load.ts'

export const folder = join(import.meta.dirname, '../../config/kubernetes')

/** A Kubernetes object. */
export interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string; labels?: Record<string, string> }
  [field: string]: unknown
}

/** False where kubectl is not installed, or is older than its components (1.21). */
export const hasKubectl = spawnSync('kubectl', ['kustomize', '--help'], { encoding: 'utf8' }).stdout?.includes(
  '--load-restrictor',
)

function parsed(text: string, source: string): Manifest[] {
  return parseAllDocuments(text).map((document) => {
    const [problem] = [...document.errors, ...document.warnings]
    if (problem !== undefined) throw new Error(`${source}: ${problem.message}`)
    return document.toJSON() as Manifest
  })
}

/** All documents of a YAML file. @throws Error at an error or a warning of the parser */
export function readManifests(path: string): Manifest[] {
  return parsed(readFileSync(path, 'utf8'), path)
}

/** The objects of the overlay in this folder. @throws Error when kubectl refuses it */
export function renderOverlay(folder: string): Manifest[] {
  return parsed(execFileSync('kubectl', ['kustomize', folder], { encoding: 'utf8' }), folder)
}

/** The manifests with the nightly comparison in both overlays, as docs/compare.md adds it, for as long as `use` takes. */
export function withCompare<T>(use: (folder: string) => T): T {
  const copy = mkdtempSync(join(tmpdir(), 'kubernetes-'))
  try {
    cpSync(folder, copy, { recursive: true })
    for (const overlay of ['deployment', 'sidecar']) {
      const file = join(copy, overlay, 'kustomization.yaml')
      writeFileSync(file, readFileSync(file, 'utf8').replace('  - ../base\n', '  - ../base\n  - ../compare\n'))
    }
    return use(copy)
  } finally {
    rmSync(copy, { recursive: true })
  }
}

/** The template of the pods that an object makes; none for other objects. */
export function podsOf({ kind, spec }: Manifest): PodTemplate[] {
  const { jobTemplate, template } = (spec ?? {}) as {
    jobTemplate?: { spec: { template: PodTemplate } }
    template?: PodTemplate
  }
  const found = kind === 'CronJob' ? jobTemplate?.spec.template : template
  return found === undefined ? [] : [found]
}

/** What a selector asks of labels. */
export function isSelected({ matchLabels }: Selector, labels: Labels): boolean {
  return Object.entries(matchLabels).every(([label, value]) => labels[label] === value)
}

type Labels = Record<string, string>

interface Selector {
  matchLabels: Labels
}

interface Container {
  name: string
  image: string
  args?: string[]
  env?: { name: string; value?: string }[]
  ports: { name: string; containerPort: number }[]
  resources?: object
  securityContext?: object
  volumeMounts?: { name: string; mountPath: string; readOnly?: boolean; subPath?: string }[]
}

export interface PodTemplate {
  metadata: { labels: Labels; annotations?: Labels }
  spec: Pod
}

interface Pod {
  serviceAccountName?: string
  terminationGracePeriodSeconds: number
  containers: Container[]
  initContainers?: Container[]
  volumes: {
    name: string
    configMap?: { name: string }
    secret?: { secretName: string }
    projected?: { sources: object[] }
  }[]
}

export interface Deployment {
  replicas: number
  strategy: object
  selector: Selector
  template: PodTemplate
}

interface Port {
  protocol: string
  port: number
}

export interface NetworkPolicy {
  podSelector: Selector
  policyTypes: string[]
  ingress: { from?: object[]; ports: Port[] }[]
  egress?: { ports: Port[] }[]
}

interface PodMonitor {
  selector: Selector
  podMetricsEndpoints: {
    relabelings: { sourceLabels: string[]; separator?: string; targetLabel: string; replacement?: string }[]
  }[]
}

export interface Overlay {
  manifests: Manifest[]
  deployment: Deployment
  pod: Pod
  daemon: Container
  settings: { metadata: { name: string }; data: Record<string, string> }
  policy: NetworkPolicy
}

/** The specification of an object, as `problemsOfManifest` holds it. */
export function specOf<Spec>(manifests: readonly Manifest[], kind: string): Spec {
  return only(manifests, kind)['spec'] as Spec
}

/** What scrapes the pods of all overlays, applied once in a cluster. */
export function readMonitor(): PodMonitor {
  return specOf(renderOverlay(join(folder, 'monitoring')), 'PodMonitor')
}

export function only(manifests: readonly Manifest[], kind: string): Manifest {
  const found = manifests.filter((manifest) => manifest.kind === kind)
  if (found.length !== 1 || found[0] === undefined) throw new Error(`${found.length} objects are ${kind}`)
  return found[0]
}

export function readOverlay(name: string): Overlay {
  const manifests = renderOverlay(join(folder, name))
  const deployment = specOf<Deployment>(manifests, 'Deployment')
  const pod = deployment.template.spec
  const daemon = pod.containers.find((candidate) => candidate.name === 'webhook-reconciler')
  if (daemon === undefined) throw new Error(`${name}: the daemon's container is not in the pod`)
  const settings = only(manifests, 'ConfigMap') as Manifest & Overlay['settings']
  return { manifests, deployment, pod, daemon, settings, policy: specOf(manifests, 'NetworkPolicy') }
}

export const secret = only(readManifests(join(folder, 'secret.example.yaml')), 'Secret')
export const secretKeys = Object.keys(secret['stringData'] as object)
export const controlToken = 'ab'.repeat(32)

/** The daemon's configuration as its container would find it. */
export function inputOf({ daemon: { env = [] }, settings }: Overlay): ConfigInput {
  const variable = (name: string): string => env.find((candidate) => candidate.name === name)?.value ?? ''
  const files = new Map([
    [variable(fileVariable), settings.data['config.yaml'] ?? ''],
    [variable('RECONCILER_CONTROL_TOKEN_FILE'), `${controlToken}\n`],
  ])
  return {
    env: Object.fromEntries(env.map(({ name, value }) => [name, value ?? 'from-elsewhere'])),
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
  const [endpoint] = readMonitor().podMetricsEndpoints
  const relabelings = endpoint?.relabelings ?? []
  return Object.fromEntries(
    relabelings.map(({ replacement = '$1', separator = ';', sourceLabels, targetLabel }) => [
      targetLabel,
      replacement.replace('$1', sourceLabels.map((label) => Reflect.get(found, label) as string).join(separator)),
    ]),
  )
}
