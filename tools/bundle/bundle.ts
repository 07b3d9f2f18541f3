// Bundles the program into dist/: main.cjs, which loads the others, start.cjs, program.cjs with the command line, config.cjs with
// all that `healthcheck` needs, daemon.cjs with what `run` needs besides, and commands.cjs for the other commands.
import { chmod, copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { writeMaterials } from './materials.ts'
import { rolldown, type ChunkingContext, type Plugin } from 'rolldown'
import { createStaging } from './staging.ts'

const mainModule = 'src/main.ts'
/** Loaded only for an error that no part expected. */
const bugModule = 'src/cli/bug.ts'
/** The command that is in daemon.cjs. */
const runModule = 'src/cli/run.ts'
/** The command that is in config.cjs with all that it needs: it runs beside the daemon, every 30 s. */
const healthcheckModule = 'src/cli/daemon-call.ts'

/** Packages of which the program uses a part, and the file here that stands in their place. */
const parts = { undici: 'undici.js', 'prom-client': 'prom-client.js' }

/** Code of a module that the program never calls: a call throws. */
const refusal = (reason: string): string => `module.exports = () => { throw new Error(${JSON.stringify(reason)}) }`

/** Modules that packages load at once and the program never uses, and what stands in their place. */
const absent: readonly { path: RegExp; code: string }[] = [
  // Loads node:http2. The program asks for HTTP/1.1 (`allowH2: false`).
  {
    path: /[\\/]undici[\\/]lib[\\/]dispatcher[\\/]client-h2\.js$/,
    code: refusal('this build speaks HTTP/1.1 only'),
  },
  // A second parser, experimental: 165 kB, used only with UNDICI_USE_MILO.
  {
    path: /[\\/]undici[\\/]lib[\\/]milo[\\/](?:no-)?simd\.js$/,
    code: refusal('this build parses HTTP by llhttp only'),
  },
  // pino's transports. The program writes its lines itself.
  { path: /[\\/]pino[\\/]lib[\\/]transport\.js$/, code: refusal('this build starts no worker thread') },
  // Only a transport needs the names of the files that call pino. For them V8 counts the lines of each file, a megabyte of text.
  { path: /[\\/]pino[\\/]lib[\\/]caller\.js$/, code: 'module.exports = () => []' },
]

const withoutAbsent: Plugin = {
  name: 'without-absent',
  load: {
    filter: { id: absent.map(({ path }) => path) },
    handler: (id) => absent.find(({ path }) => path.test(id))?.code,
  },
}

/** Schedules are counted in UTC where the zone makes no difference (src/runtime/schedule.ts), so most of them. */
const utcWithoutIntl: Plugin = {
  name: 'utc-without-intl',
  transform: {
    filter: { id: /[\\/]node_modules[\\/]node-cron[\\/]/, code: /new Intl\.DateTimeFormat\(/ },
    handler: (code) =>
      `import { dateTimeFormat } from ${JSON.stringify(join(import.meta.dirname, 'date-time-format.ts'))};
        ${code.replaceAll('new Intl.DateTimeFormat(', 'dateTimeFormat(')}`,
  },
}

/** One character beyond ASCII would make V8 keep a whole file in two bytes a character. */
const inAscii: Plugin = {
  name: 'in-ascii',
  generateBundle(_options, files) {
    for (const file of Object.values(files)) {
      if (file.type !== 'chunk') continue
      if (/\\[^\0-\x7f]/.test(file.code))
        throw new Error(`${file.fileName}: a backslash stands before a character beyond ASCII`)
      file.code = file.code.replaceAll(
        /[^\0-\x7f]/g,
        (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
      )
    }
  },
}

/** Builtin modules of Node that packages load at once and the program never uses, and what stands in their place there. */
const absentBuiltins: readonly { name: string; importer: RegExp; code: string }[] = [
  // commander could start a command in a process of its own, and node-cron a task: the program does neither.
  {
    name: 'child_process',
    importer: /[\\/]node_modules[\\/](?:commander|node-cron)[\\/]/,
    code: `export function fork() { throw new Error('this build starts no process') }
      export { fork as spawn }
      export default { spawn: fork }`,
  },
  // pino asks it whether it runs on the main thread, as the program does. Loading it takes 3 ms.
  { name: 'worker_threads', importer: /[\\/]node_modules[\\/]pino[\\/]/, code: 'export const isMainThread = true' },
]

const withoutAbsentBuiltins: Plugin = {
  name: 'without-absent-builtins',
  resolveId: {
    filter: { id: new RegExp(`^(?:node:)?(?:${absentBuiltins.map(({ name }) => name).join('|')})$`) },
    handler(id, from = '') {
      const name = id.replace(/^node:/, '')
      return absentBuiltins.some((absence) => absence.name === name && absence.importer.test(from)) ? `\0${name}` : null
    },
  },
  load: {
    filter: { id: new RegExp(`^\0(?:${absentBuiltins.map(({ name }) => name).join('|')})$`) },
    handler: (id) => absentBuiltins.find(({ name }) => id === `\0${name}`)?.code,
  },
}

/** Paths of all modules that these import statically, and their own. */
function closure(entries: readonly string[], context: ChunkingContext): ReadonlySet<string> {
  const reached = new Set<string>()
  const left = [...entries]
  for (let id = left.pop(); id !== undefined; id = left.pop()) {
    if (reached.has(id)) continue
    reached.add(id)
    left.push(...(context.getModuleInfo(id)?.importedIds ?? []))
  }
  return reached
}

/** Sorts modules into files: what `main` imports at once stays with it, so that it listens for signals before it loads the rest. */
function createSorter(root: string): (id: string, context: ChunkingContext) => string | null {
  const main = join(root, mainModule)
  let files: ReadonlyMap<string | null, ReadonlySet<string>> | undefined
  return (id, context) => {
    const lazily = context.getModuleInfo(main)?.dynamicallyImportedIds ?? []
    const bug = join(root, bugModule)
    files ??= new Map([
      [null, closure([main], context)],
      // `--help` loads nothing else.
      [
        'program',
        closure(
          lazily.filter((path) => path !== bug),
          context,
        ),
      ],
      ['config', closure([join(root, healthcheckModule)], context)],
      ['daemon', closure([join(root, runModule), bug], context)],
    ])
    for (const [file, modules] of files) if (modules.has(id)) return file
    return 'commands'
  }
}

/**
 * Writes the bundle of the checkout at `root` into its dist/. CommonJS, because an ESM import of a module of Node's own
 * reads all its exports, which costs 13 MiB and 40 ms for node:http. Not minified: stack traces name functions, and the
 * line that they name lies below the name of its source file.
 * @returns the paths of all modules in it
 * @throws Error at the first thing that the bundler warns about
 */
export async function bundle(root: string): Promise<string[]> {
  await using build = await rolldown({
    input: { start: join(root, mainModule) },
    cwd: root,
    platform: 'node',
    tsconfig: false,
    resolve: {
      alias: Object.fromEntries(Object.entries(parts).map(([name, file]) => [name, join(import.meta.dirname, file)])),
    },
    plugins: [withoutAbsent, withoutAbsentBuiltins, utcWithoutIntl, inAscii],
    preserveEntrySignatures: false,
    checks: { ineffectiveDynamicImport: false },
    onLog(_level, { message }) {
      throw new Error(`${message}\nThe bundle must be made without a warning: see tools/bundle/bundle.ts.`)
    },
  })
  await using staging = await createStaging(join(root, 'dist'))
  const { output } = await build.write({
    dir: staging.path,
    format: 'cjs',
    entryFileNames: '[name].cjs',
    chunkFileNames: '[name].cjs',
    exports: 'none',
    comments: { annotation: false, jsdoc: false, legal: false },
    // Modules of both other files are started when they are first imported, as they are unbundled.
    strictExecutionOrder: true,
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [{ debugName: 'files', name: createSorter(root) }],
    },
  })
  await copyFile(join(import.meta.dirname, 'launcher.cjs'), join(staging.path, 'main.cjs'))
  await chmod(join(staging.path, 'main.cjs'), 0o755)
  const modules = output.flatMap((file) => {
    const entries = file.type === 'chunk' ? Object.entries(file.modules) : []
    return entries.flatMap(([id, { renderedLength }]) => (renderedLength > 0 ? [id] : []))
  })
  await writeMaterials(root, staging.path, modules)
  await staging.publish()
  return modules
}
