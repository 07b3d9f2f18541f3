// Checks Kubernetes objects against the schemas of the API: types, required fields, and fields that it does not know.
import { PodMonitor, PrometheusRule } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1'
import { Deployment } from 'kubernetes-models/apps/v1/Deployment'
import { CronJob } from 'kubernetes-models/batch/v1/CronJob'
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy'
import { Role } from 'kubernetes-models/rbac.authorization.k8s.io/v1/Role'
import { RoleBinding } from 'kubernetes-models/rbac.authorization.k8s.io/v1/RoleBinding'
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap'
import { Secret } from 'kubernetes-models/v1/Secret'
import { ServiceAccount } from 'kubernetes-models/v1/ServiceAccount'
import type { Manifest } from './overlays.ts'

const models = [
  ConfigMap,
  CronJob,
  Deployment,
  NetworkPolicy,
  PodMonitor,
  PrometheusRule,
  Role,
  RoleBinding,
  Secret,
  ServiceAccount,
]

/** Problems of an object, one line each; none when the API takes it. */
export function problemsOfManifest(manifest: Manifest): string[] {
  const model = models.find(({ apiVersion, kind }) => apiVersion === manifest.apiVersion && kind === manifest.kind)
  if (model === undefined) return [`${manifest.apiVersion} ${manifest.kind}: no schema is known here`]
  const seen = new Set<string>()
  try {
    model.prototype.validate.call(recorded(manifest, '', seen) as Deployment)
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)]
  }
  // The schemas allow fields that the API does not have. A validator reads each field that it knows, and no other.
  return pathsOf(manifest, '')
    .filter((path) => !seen.has(path))
    .map((path) => `${path}: the API has no such field`)
}

/** The same data; each field that is read is noted in `seen`. */
function recorded(value: unknown, path: string, seen: Set<string>): unknown {
  if (typeof value !== 'object' || value === null) return value
  return new Proxy(value, {
    get(target, name) {
      const inner: unknown = Reflect.get(target, name)
      if (typeof name === 'symbol') return inner
      seen.add(`${path}/${name}`)
      return recorded(inner, `${path}/${name}`, seen)
    },
  })
}

function pathsOf(value: unknown, path: string): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => [`${path}/${name}`, ...pathsOf(inner, `${path}/${name}`)])
}
