// Reads the environment: RECONCILER_ variables, their _FILE twins, and what Kubernetes puts there for its Services.
import type { ConfigurationProblem } from '../runtime/errors.ts'
import { environmentPrefix, fileVariable } from './key.ts'
import type { Key } from './key.ts'
import { emptyLayer, shownText, unreadable } from './layer.ts'
import type { Layer } from './layer.ts'
import { nearest } from './suggest.ts'

export interface EnvironmentLayer extends Layer {
  /** Names that look like Kubernetes' service links, and so were ignored. */
  passedOver: string[]
}

interface Source {
  env: Readonly<Record<string, string | undefined>>
  readFile: (path: string) => string
}

/** Never the address of a Service: an operator who sets these means the daemon's own listener. */
const ownAddress = /^(?:0\.0\.0\.0|127\..*|::1?|localhost)$/

/** Name and value of each kind of service-link variable. @see https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables */
const serviceLinks: readonly { name: RegExp; fits: (value: string) => boolean }[] = [
  { name: /_SERVICE_HOST$/, fits: (value) => /^[0-9A-Fa-f.:]+$/.test(value) && !ownAddress.test(value) },
  { name: /_SERVICE_PORT(?:_[A-Z0-9_]+)?$/, fits: (value) => /^\d+$/.test(value) },
  { name: /_PORT$/, fits: (value) => /^(?:tcp|udp|sctp):\/\//.test(value) },
  { name: /_PORT_\d+_(?:TCP|UDP|SCTP)$/, fits: (value) => /^(?:tcp|udp|sctp):\/\//.test(value) },
  { name: /_PORT_\d+_(?:TCP|UDP|SCTP)_(?:PROTO|PORT|ADDR)$/, fits: () => true },
]

/**
 * Kubernetes gives every container variables for every Service of its namespace. One named `reconciler-server` makes
 * RECONCILER_SERVER_PORT=tcp://10.0.0.1:80, which is also the variable of a key. A Service of another team must not keep
 * the daemon from starting, so such variables are ignored.
 */
function isServiceLink(name: string, value: string): boolean {
  return serviceLinks.some((link) => link.name.test(name) && link.fits(value))
}

const problem = (key: string, origin: string, message: string): ConfigurationProblem => ({ key, origin, message })

const emptyMessage = 'is empty: give it a value, or take the variable away'

function takeVariable(layer: Layer, key: Key, value: string): void {
  const text = key.secret ? value : value.trim()
  // A lost value must not turn a selection or a limit off, so only a key to which "empty" means something takes it.
  if (text === '' && !key.schema.safeParse('').success) {
    layer.problems.push(problem(key.key, key.environment, emptyMessage))
  } else layer.values.set(key.key, { raw: key.fromText(text), origin: key.environment })
}

function takeTwin(layer: Layer, key: Key, twin: string, { env, readFile }: Source): void {
  const path = (env[twin] ?? '').trim()
  if (env[key.environment] !== undefined) {
    layer.problems.push(problem(key.key, twin, `${key.environment} is set too: take one of the two away`))
  } else if (path === '') layer.problems.push(problem(key.key, twin, emptyMessage))
  else {
    try {
      const raw = readFile(path).replace(/\r?\n$/, '')
      if (raw === '') layer.problems.push(problem(key.key, twin, 'names a file that is empty'))
      else layer.values.set(key.key, { raw, origin: twin })
    } catch (error) {
      // Not the path: it may be the secret itself, put into the wrong variable.
      layer.problems.push(problem(key.key, twin, `names a file that ${unreadable(error)}`))
    }
  }
}

function unknownVariable(name: string, known: readonly string[]): ConfigurationProblem {
  const meant = nearest(name, known)
  const hint = meant === undefined ? '' : `; did you mean ${meant}?`
  return problem(shownText(name), 'environment', `there is no such variable${hint}`)
}

/** The values that the environment gives. Variables without our prefix are none of our business. */
export function environmentLayer(source: Source, keys: readonly Key[]): EnvironmentLayer {
  const layer: EnvironmentLayer = { ...emptyLayer(), passedOver: [] }
  const byName = new Map(keys.map((key) => [key.environment, key]))
  const byTwin = new Map(keys.flatMap((key) => (key.fileTwin === undefined ? [] : [[key.fileTwin, key] as const])))
  for (const [name, value] of Object.entries(source.env).sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (value === undefined || !name.startsWith(environmentPrefix) || name === fileVariable) continue
    const [own, ownTwin] = [byName.get(name), byTwin.get(name)]
    if (isServiceLink(name, value)) layer.passedOver.push(name)
    else if (own !== undefined) takeVariable(layer, own, value)
    else if (ownTwin !== undefined) takeTwin(layer, ownTwin, name, source)
    else layer.problems.push(unknownVariable(name, [...byName.keys(), ...byTwin.keys(), fileVariable]))
  }
  return layer
}
