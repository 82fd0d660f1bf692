// What the image runs: `role.js ROLE [flags]` becomes that role, whose bundle lies beside this one.
import { roleEntries } from './entries.ts';

const [role = ''] = process.argv.splice(2, 1);
if (Object.hasOwn(roleEntries, role)) {
  const bundle = `./${role}.js`;
  await import(bundle);
} else {
  process.stderr.write(`First argument "${role}": must be one of ${Object.keys(roleEntries).join(', ')}\n`);
  process.exitCode = 1;
}
