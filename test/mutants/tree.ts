// A copy of the repository in which a mutant is made: the user's checkout is only read.
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { globSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import ts from 'typescript'
import { mutated, type Mutant } from './mutant.ts'

export interface Tree extends AsyncDisposable {
  /** Root of the copy. */
  folder: string
  /** For temporary files; it goes with the copy. */
  scratch: string
  /** Breaks the copy, its `dist/` too. Resolves to what mends it. @throws MutantError */
  apply(mutant: Mutant): Promise<() => Promise<void>>
}

/** Parts of a checkout that are none of the source. */
const leftOut = new Set(['.git', 'coverage', 'dist', 'node_modules', 'test-artifacts'])

/** One module as `tsc -p src/tsconfig.json` writes it. */
function compiled(source: string): string {
  const compilerOptions = {
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.ESNext,
    rewriteRelativeImportExtensions: true,
    verbatimModuleSyntax: true,
  }
  return ts.transpileModule(source, { compilerOptions }).outputText
}

async function compileInto(folder: string, file: string, source: string): Promise<void> {
  const path = join(folder, 'dist', file.replace(/\.ts$/, '.js'))
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, compiled(source))
}

async function fill(folder: string, root: string): Promise<void> {
  const filter = (path: string): boolean => !leftOut.has(relative(root, path).split('/')[0] ?? '')
  await cp(root, folder, { recursive: true, filter })
  // Packages stay where they are: no test writes there, and the runner's cache is sent elsewhere.
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  for (const file of globSync('**/*.ts', { cwd: join(folder, 'src') })) {
    await compileInto(folder, file, await readFile(join(folder, 'src', file), 'utf8'))
  }
}

/** Copies the checkout at `root`, with a `dist/` of its own. */
export async function copyTree(root: string): Promise<Tree> {
  const folder = await mkdtemp(join(tmpdir(), 'mutants-'))
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true, maxRetries: 5 })
  const scratch = join(folder, 'scratch')
  try {
    await fill(folder, root)
    await mkdir(scratch)
  } catch (error) {
    await remove()
    throw error
  }

  async function write(file: string, source: string): Promise<void> {
    await writeFile(join(folder, 'src', file), source)
    await compileInto(folder, file, source)
  }

  return {
    folder,
    scratch,
    async apply(mutant) {
      const source = await readFile(join(folder, 'src', mutant.file), 'utf8')
      await write(mutant.file, mutated(source, mutant))
      return () => write(mutant.file, source)
    },
    [Symbol.asyncDispose]: remove,
  }
}
