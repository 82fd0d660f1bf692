// What the image runs: `role.ts ROLE [flags]` becomes the entry point of that role.
const entries = {
  watcher: '../../watcher/main.ts',
  webhook: '../../watcher/admission/main.ts',
  worker: '../../workers/main.ts',
  daemon: '../../daemon/main.ts',
  all: '../../workers/all.ts',
} as const;

const [role = ''] = process.argv.splice(2, 1);
const entry = Object.entries(entries).find(([name]) => name === role)?.[1];
if (entry) {
  await import(entry);
} else {
  process.stderr.write(`First argument: one of ${Object.keys(entries).join(', ')}; "${role}" is none of them\n`);
  process.exitCode = 1;
}
