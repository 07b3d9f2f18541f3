// Reads a Dockerfile.

export interface Instruction {
  /** In upper case: `COPY`. */
  name: string
  /** The rest of the line, continued lines joined with a space. */
  rest: string
}

export interface Dockerfile {
  /** Defaults of the arguments before the first FROM. */
  args: Record<string, string>
  stages: Stage[]
}

export interface Stage {
  /** What stands behind FROM, and its name if it has one. */
  image: string
  /** Of `--platform`: what the stage runs on. Undefined: what the image is for, or the platform of the stage below. */
  platform: string | undefined
  name: string | undefined
  instructions: Instruction[]
}

/** Splits a Dockerfile into its stages. Knows no heredocs and no parser directives: this repository has none. */
export function parseDockerfile(text: string): Dockerfile {
  const lines = text
    .split('\n')
    .filter((line) => !/^\s*(#|$)/.test(line))
    .join('\n')
    .replaceAll(/\\\n\s*/g, ' ')
  const stages: Stage[] = []
  const args: Record<string, string> = {}
  for (const line of lines.split('\n').filter((candidate) => candidate !== '')) {
    const [, name = '', rest = ''] = /^(\w+)\s+(.*)$/.exec(line) ?? []
    if (name.toUpperCase() === 'FROM') {
      const [, platform, from = ''] = /^(?:--platform=(\S+)\s+)?(.*)$/.exec(rest) ?? []
      const [image = '', , stageName] = from.split(/\s+/)
      stages.push({ image, platform, name: stageName, instructions: [] })
    } else if (stages.length === 0) Object.assign(args, parsePairs(rest))
    else stages.at(-1)?.instructions.push({ name: name.toUpperCase(), rest: rest.trim() })
  }
  return { args, stages }
}

/** `KEY=value` pairs of an ENV or LABEL line; values may stand in double quotes. */
export function parsePairs(rest: string): Record<string, string> {
  const pairs = Array.from(
    rest.matchAll(/([\w.-]+)=(?:"([^"]*)"|(\S+))/g),
    ([, key = '', quoted, bare]): [string, string] => [key, quoted ?? bare ?? ''],
  )
  return Object.fromEntries(pairs)
}

/** True for a path that .dockerignore lets in. Knows what this repository's file uses: `*` and exceptions of whole names. */
export function isInContext(dockerignore: string, path: string): boolean {
  const allowed = dockerignore
    .split('\n')
    .filter((line) => line.startsWith('!'))
    .map((line) => line.slice(1))
  return allowed.some((name) => path === name || path.startsWith(`${name}/`))
}
