// A copy of the repository in which a mutant is made: the user's checkout is only read.
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { bundle } from '../../tools/bundle/bundle.ts'
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

async function fill(folder: string, root: string): Promise<void> {
  const filter = (path: string): boolean => !leftOut.has(relative(root, path).split('/')[0] ?? '')
  await cp(root, folder, { recursive: true, filter })
  // Packages stay where they are: no test writes there, and the runner's cache is sent elsewhere.
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await bundle(folder)
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
    await bundle(folder)
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
