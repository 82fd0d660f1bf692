// The entry point of the image: `role.js ROLE [flags]` loads the bundle of that role from its own folder.
import { roleEntries } from './entries.ts';

const [role = ''] = process.argv.splice(2, 1);
if (Object.hasOwn(roleEntries, role)) {
  const bundle = `./${role}.js`;
  await import(bundle);
} else {
  process.stderr.write(`First argument "${role}": must be one of ${Object.keys(roleEntries).join(', ')}\n`);
  process.exitCode = 1;
}
