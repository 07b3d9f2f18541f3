// Renders a kustomization by kubectl, as an operator does.
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { parseAllDocuments } from 'yaml'
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

/** False where kubectl is not installed, or is older than its components (1.21). */
export const hasKubectl = spawnSync('kubectl', ['kustomize', '--help'], { encoding: 'utf8' }).stdout?.includes(
  '--load-restrictor',
)

function parsed(text: string, source: string): Manifest[] {
  return parseAllDocuments(text).map((document) => {
    const [problem] = [...document.errors, ...document.warnings]
    if (problem !== undefined) throw new Error(`${source}: ${problem.message}`)
    return manifestSchema.parse(document.toJSON()) as Manifest
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
