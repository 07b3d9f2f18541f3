// Replaces the old build by a new one: a process that starts meanwhile finds every file complete.
import { mkdir, mkdtempDisposable, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

const prefix = '.new-'

export interface Staging extends AsyncDisposable {
  /** Write the new files here. */
  path: string
  /** Moves them to their place, and removes other files there. */
  publish(): Promise<void>
}

/**
 * A folder in `folder` for files that will replace those of `folder`, each atomically. A process that loads one file
 * before and another after gets two builds, but within a millisecond only, where a build in place takes hundreds.
 */
export async function createStaging(folder: string): Promise<Staging> {
  await mkdir(folder, { recursive: true })
  const { path, remove } = await mkdtempDisposable(join(folder, prefix))
  return {
    path,
    async publish() {
      const files = await readdir(path)
      await Promise.all(files.map((file) => rename(join(path, file), join(folder, file))))
      // Other folders of this kind belong to simultaneous builds.
      const former = (await readdir(folder)).filter((file) => !files.includes(file) && !file.startsWith(prefix))
      await Promise.all(former.map((file) => rm(join(folder, file), { recursive: true, force: true })))
    },
    [Symbol.asyncDispose]: remove,
  }
}
