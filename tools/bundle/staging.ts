// Puts a new build in the place of the old one: a process that starts meanwhile finds every file whole.
import { mkdir, mkdtempDisposable, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

const prefix = '.new-'

export interface Staging extends AsyncDisposable {
  /** Write the new files here. */
  path: string
  /** Puts them in their place, and removes the files that were there besides. */
  publish(): Promise<void>
}

/**
 * A folder in `folder` for files that are to replace those of `folder`, each in one step. A process that loads one file
 * before this and another after it gets two builds: that takes a millisecond, where a build in place takes hundreds.
 */
export async function createStaging(folder: string): Promise<Staging> {
  await mkdir(folder, { recursive: true })
  const { path, remove } = await mkdtempDisposable(join(folder, prefix))
  return {
    path,
    async publish() {
      const files = await readdir(path)
      await Promise.all(files.map((file) => rename(join(path, file), join(folder, file))))
      // Other folders of this kind belong to builds that run at the same time.
      const former = (await readdir(folder)).filter((file) => !files.includes(file) && !file.startsWith(prefix))
      await Promise.all(former.map((file) => rm(join(folder, file), { recursive: true, force: true })))
    },
    [Symbol.asyncDispose]: remove,
  }
}
