// The options of Node that the image sets, for measurements outside of it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseDockerfile, parsePairs } from './dockerfile.ts'

/** NODE_OPTIONS of the image. */
export function imageOptions(): string {
  const text = readFileSync(join(import.meta.dirname, '../../Dockerfile'), 'utf8')
  const env = parseDockerfile(text)
    .stages.find(({ name }) => name === 'settings')
    ?.instructions.find(({ name }) => name === 'ENV')
  return parsePairs(env?.rest ?? '')['NODE_OPTIONS'] ?? ''
}
