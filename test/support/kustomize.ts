// Renders a kustomization, as far as config/kubernetes uses it: resources, components, strategic merge patches, namespace.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments, parseDocument } from 'yaml'
import { z } from 'zod'

/** A Kubernetes object. */
export interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string; labels?: Record<string, string> }
  [field: string]: unknown
}

const manifestSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({
    name: z.string(),
    namespace: z.string().optional(),
    labels: z.record(z.string(), z.string()).optional(),
  }),
})

const patchSchema = z.strictObject({
  path: z.string(),
  target: z.strictObject({ kind: z.string(), labelSelector: z.string().regex(/^[\w./-]+=[\w.-]+$/) }).optional(),
})

/** Strict, so that a field which this renderer does not know is an error. */
const kustomizationSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    apiVersion: z.literal('kustomize.config.k8s.io/v1beta1'),
    kind: z.literal('Kustomization'),
    namespace: z.string().optional(),
    resources: z.array(z.string()).default([]),
    components: z.array(z.string()).default([]),
    patches: z.array(patchSchema).default([]),
  }),
  z.strictObject({
    apiVersion: z.literal('kustomize.config.k8s.io/v1alpha1'),
    kind: z.literal('Component'),
    resources: z.array(z.string()).default([]),
    patches: z.array(patchSchema).default([]),
  }),
])

type Patch = z.output<typeof patchSchema>

/** Lists that are merged by a field of their items; every other list is replaced. @see `x-kubernetes-patch-merge-key` of the API */
const mergeKeys: Readonly<Record<string, string>> = {
  containers: 'name',
  initContainers: 'name',
  env: 'name',
  volumes: 'name',
  volumeMounts: 'mountPath',
  ports: 'containerPort',
}

/** All documents of a YAML file. @throws Error at an error or a warning of the parser */
export function readManifests(path: string): Manifest[] {
  return parseAllDocuments(readFileSync(path, 'utf8')).map((document) => {
    const [problem] = [...document.errors, ...document.warnings]
    if (problem !== undefined) throw new Error(`${path}: ${problem.message}`)
    return manifestSchema.parse(document.toJSON()) as Manifest
  })
}

/** The objects of the overlay in this folder. */
export function renderOverlay(folder: string): Manifest[] {
  const overlay = readKustomization(folder)
  if (overlay.kind !== 'Kustomization') throw new Error(`${folder} is a component`)
  let manifests = resourcesOf(folder, overlay.resources)
  for (const path of overlay.components) {
    const place = join(folder, path)
    const component = readKustomization(place)
    if (component.kind !== 'Component') throw new Error(`${place} is no component`)
    manifests = applyPatches([...manifests, ...resourcesOf(place, component.resources)], place, component.patches)
  }
  manifests = applyPatches(manifests, folder, overlay.patches)
  return overlay.namespace === undefined ? manifests : inNamespace(manifests, overlay.namespace)
}

function readKustomization(folder: string): z.output<typeof kustomizationSchema> {
  return kustomizationSchema.parse(parseDocument(readFileSync(join(folder, 'kustomization.yaml'), 'utf8')).toJSON())
}

function resourcesOf(folder: string, files: readonly string[]): Manifest[] {
  return files.flatMap((file) => readManifests(join(folder, file)))
}

function applyPatches(manifests: readonly Manifest[], folder: string, patches: readonly Patch[]): Manifest[] {
  let patched = [...manifests]
  for (const { path, target } of patches) {
    for (const patch of readManifests(join(folder, path))) {
      const isTarget = (manifest: Manifest): boolean =>
        target === undefined ? isSameObject(manifest, patch) : isSelected(manifest, target)
      if (!patched.some(isTarget)) throw new Error(`${folder}/${path} patches nothing`)
      patched = patched.map((manifest) => (isTarget(manifest) ? patchManifest(manifest, patch) : manifest))
    }
  }
  return patched
}

function isSameObject(a: Manifest, b: Manifest): boolean {
  return a.apiVersion === b.apiVersion && a.kind === b.kind && a.metadata.name === b.metadata.name
}

function isSelected(manifest: Manifest, { kind, labelSelector }: NonNullable<Patch['target']>): boolean {
  const [label = '', value] = labelSelector.split('=')
  return manifest.kind === kind && manifest.metadata.labels?.[label] === value
}

/** With a target, the patch's own kind and name say nothing. */
function patchManifest(manifest: Manifest, patch: Manifest): Manifest {
  const { apiVersion, kind, metadata } = manifest
  const merged = merge(manifest, patch, '') as Manifest
  return { ...merged, apiVersion, kind, metadata: { ...merged.metadata, name: metadata.name } }
}

/** Strategic merge of `patch` into `base`, which is the value of the field `field`. */
function merge(base: unknown, patch: unknown, field: string): unknown {
  if (Array.isArray(base) && Array.isArray(patch)) return mergeLists(base, patch, field)
  if (!isRecord(base) || !isRecord(patch)) return patch
  const merged: Record<string, unknown> = { ...base }
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) throw new Error(`${name}: this renderer removes no field`)
    merged[name] = merge(base[name], value, name)
  }
  return merged
}

/** Items that are new come first, as with kustomize. */
function mergeLists(base: readonly unknown[], patch: readonly unknown[], field: string): unknown[] {
  const key = mergeKeys[field]
  if (key === undefined) return [...patch]
  const keyOf = (item: unknown): unknown => (isRecord(item) ? item[key] : undefined)
  const added = patch.filter((item) => !base.some((old) => keyOf(old) === keyOf(item)))
  const kept = base.map((old) => {
    const changed = patch.find((item) => keyOf(item) === keyOf(old))
    return changed === undefined ? old : merge(old, changed, '')
  })
  return [...added, ...kept]
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** All objects in this namespace, and role bindings that name one of their service accounts. */
function inNamespace(manifests: readonly Manifest[], namespace: string): Manifest[] {
  const accounts = manifests.flatMap(({ kind, metadata }) => (kind === 'ServiceAccount' ? [metadata.name] : []))
  return manifests.map((manifest) => {
    const moved = { ...manifest, metadata: { ...manifest.metadata, namespace } }
    const { subjects } = manifest
    if (!Array.isArray(subjects)) return moved
    return {
      ...moved,
      subjects: subjects.map((subject: unknown) =>
        isRecord(subject) && accounts.includes(String(subject['name'])) ? { ...subject, namespace } : subject,
      ),
    }
  })
}
