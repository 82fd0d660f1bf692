// What no pod can work with in hot-upgrade sidecars. OpenKruise accepts it (SHU §6).

import { type JsonObject, listOr, objectOr } from '../base/json.ts';
import { type FieldError, forbidden, invalid, required } from '../core/field-error.ts';
import { type PlacedContainer, textOf } from './read.ts';
import { hotPair } from './types.ts';

/** Characters of the name of a hot-upgrade sidecar: its containers have two more. */
export const longestHotName = 61;

/** The problems of the hot-upgrade sidecars among the containers of a SidecarSet. */
export function hotUpgradeProblems(containers: readonly PlacedContainer[]): readonly FieldError[] {
  const hot = containers.filter(({ container }) => objectOr(container.upgradeStrategy).upgradeType === 'HotUpgrade');
  const owners = new Map(
    hot.flatMap(({ list, container }) => {
      const name = textOf(container.name);
      return hotPair(name).map((inPod) => [`${list}/${inPod}`, name] as const);
    }),
  );
  return [
    ...hot.flatMap(problemsOf),
    ...containers.flatMap(({ list, path, container: { name } }) => {
      const owner = owners.get(`${list}/${textOf(name)}`);
      return owner === undefined
        ? []
        : [invalid(`${path}.name`, name, `is a container of HotUpgrade sidecar ${owner}`)];
    }),
  ];
}

function problemsOf({ path, container }: PlacedContainer): readonly FieldError[] {
  const name = textOf(container.name);
  const emptyImage = textOf(objectOr(container.upgradeStrategy).hotUpgradeEmptyImage);
  const at = `${path}.upgradeStrategy.hotUpgradeEmptyImage`;
  return [
    ...(emptyImage === '' ? [required(at, 'the image of the idle container of a HotUpgrade sidecar')] : []),
    ...(emptyImage !== '' && emptyImage === container.image
      ? [invalid(at, emptyImage, 'must not be the image of the sidecar')]
      : []),
    ...(name.length > longestHotName
      ? [invalid(`${path}.name`, name, `must have at most ${longestHotName} characters with HotUpgrade`)]
      : []),
    ...portsOf(container).flatMap(({ hostPort }, index) =>
      typeof hostPort === 'number' && hostPort !== 0
        ? [forbidden(`${path}.ports[${index}].hostPort`, 'two containers of a pod cannot have the same host port')]
        : [],
    ),
  ];
}

function portsOf({ ports }: JsonObject): readonly JsonObject[] {
  return listOr(ports).map(objectOr);
}
