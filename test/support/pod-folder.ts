// Preloaded into the program: a folder of the test stands where Kubernetes mounts the files of the service account.
// Both are named by the environment, because an import of ours would load the half of the source, and no bundle of it.
import fs from 'node:fs'

const { openSync } = fs
const { MOUNTED_AT = '', POD_FOLDER = MOUNTED_AT } = process.env
// URLs of modules come here too.
fs.openSync = (path, ...more) =>
  openSync(typeof path === 'string' ? path.replace(MOUNTED_AT, POD_FOLDER) : path, ...more)
