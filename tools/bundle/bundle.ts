// Bundles the program into dist/: main.cjs, start.cjs with the code to listen for signals, and files that are loaded on demand.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { writeMaterials } from './materials.ts'
import { rolldown, type Plugin } from 'rolldown'
import { createStaging } from './staging.ts'

const mainModule = 'src/main.ts'
/**
 * Node's compile cache is beside the program, if that is writable, and not in a shared temporary folder, because whoever can
 * write the cache decides what runs. A Node without a compile cache is too old, which the program reports.
 */
const launcher = `#!/usr/bin/env -S node --disable-sigusr1
'use strict'
require('node:module').enableCompileCache?.(require('node:path').join(__dirname, 'cache'))
require('./start.cjs')
`

/** Packages of which the program uses a part, and the files here that replace them. */
const parts = { undici: 'undici.js', 'prom-client': 'prom-client.js' }

/** Code of an unused module: a call throws. */
const refusal = (reason: string): string => `module.exports = () => { throw new Error(${JSON.stringify(reason)}) }`

/** Unused modules that packages import eagerly, and their replacements. */
const absent: readonly { path: RegExp; code: string }[] = [
  // Loads node:http2. The program uses HTTP/1.1 (`allowH2: false`).
  {
    path: /[\\/]undici[\\/]lib[\\/]dispatcher[\\/]client-h2\.js$/,
    code: refusal('this build speaks HTTP/1.1 only'),
  },
  // A second parser, experimental: 165 kB, used only with UNDICI_USE_MILO.
  {
    path: /[\\/]undici[\\/]lib[\\/]milo[\\/](?:no-)?simd\.js$/,
    code: refusal('this build parses HTTP by llhttp only'),
  },
  // pino's transports. The program writes its own lines.
  { path: /[\\/]pino[\\/]lib[\\/]transport\.js$/, code: refusal('this build starts no worker thread') },
  // Only a transport needs the names of the files that call pino, for which V8 counts the lines of a megabyte of text.
  { path: /[\\/]pino[\\/]lib[\\/]caller\.js$/, code: 'module.exports = () => []' },
]

const withoutAbsent: Plugin = {
  name: 'without-absent',
  load: {
    filter: { id: absent.map(({ path }) => path) },
    handler: (id) => absent.find(({ path }) => path.test(id))?.code,
  },
}

/** One character beyond ASCII would make V8 keep a whole file in two bytes a character: 4 MiB of RSS. */
const inAscii: Plugin = {
  name: 'in-ascii',
  generateBundle(_options, files) {
    for (const file of Object.values(files)) {
      if (file.type !== 'chunk') continue
      if (/\\[^\0-\x7f]/.test(file.code))
        throw new Error(`${file.fileName}: a backslash precedes a character beyond ASCII`)
      file.code = file.code.replaceAll(
        /[^\0-\x7f]/g,
        (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
      )
    }
  },
}

/**
 * Writes the bundle of the checkout at `root` into its dist/. CommonJS, because an ESM import of a module of Node's own
 * reads all its exports, which costs 13 MiB and 40 ms for node:http. Not minified: stack traces name functions, and the
 * line that they name lies below the name of its source file.
 * @returns the paths of all modules in it
 * @throws Error at the first warning of the bundler
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
    plugins: [withoutAbsent, inAscii],
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
    // Modules run when they are first imported, as without a bundle.
    strictExecutionOrder: true,
    // Otherwise each set of modules shared by some commands would be a separate file. `healthcheck` loads only the first.
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [
        { name: 'base', test: /[\\/]src[\\/](?:runtime|config)[\\/]|cli[\\/]daemon-call/ },
        {
          name: 'shown',
          test: /[\\/]src[\\/]ops[\\/](?:cause|circuit-notice|figures|incident-text|notices|words)|observe[\\/]history|reconcile[\\/]drain/,
        },
        { name: 'key', test: /[\\/]src[\\/]platform[\\/]auth[\\/](?:private-key|pem|reloadable)|platform[\\/]wire/ },
        {
          name: 'rules',
          test: /[\\/]src[\\/](?:reconcile[\\/](?!sweep|confirm)[\w-]+\.|reconcile[\\/]retry[\\/]gates|records[\\/]shown)|platform[\\/](?:record|time-zone)/,
        },
        { name: 'calls', test: /[\\/]src[\\/](?:platform|observe[\\/]log)[\\/]|reconcile[\\/]sweep/ },
        { name: 'commands', test: /[\\/]src[\\/]cli[\\/](?!bug|program|run\.|service)/ },
      ],
    },
  })
  await writeFile(join(staging.path, 'main.cjs'), launcher, { mode: 0o755 })
  const modules = output.flatMap((file) => {
    const entries = file.type === 'chunk' ? Object.entries(file.modules) : []
    return entries.flatMap(([id, { renderedLength }]) => (renderedLength > 0 ? [id] : []))
  })
  await writeMaterials(root, staging.path, modules)
  await staging.publish()
  return modules
}
