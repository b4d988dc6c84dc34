"""Face parsing: one of 19 classes for each pixel of a face photo.

Two networks: `SmallParser`, trained in this project and embedded, and `BiSeNet` (Yu et al. 2018, in the layout of the
face-parsing project), which loads the public weights by their key names. Both have the class order of `CLASSES`.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attributes import CLASSES as CLASSES
from models.attributes import GROUPS as GROUPS
from models.attributes import class_indices as class_indices

# Class indices after mirroring, which exchanges left and right.
MIRRORED = (0, 1, 3, 2, 5, 4, 6, 8, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)


class SmallParser(nn.Module):
    """A U-Net of 2 M parameters (Ronneberger et al. 2015) that works at half of the input's resolution."""

    size = 224
    """Side in pixels of the square training input."""

    def __init__(self, widths: tuple[int, ...] = (24, 48, 96, 160, 192)) -> None:
        super().__init__()
        self.stem = _Block(3, widths[0], stride=2)
        self.down = nn.ModuleList(
            nn.Sequential(_Block(before, width, stride=2), _Block(width, width)) for before, width in pairwise(widths)
        )
        self.context = nn.Linear(widths[-1], widths[-1])
        self.up = nn.ModuleList(
            _Block(below + width, width) for below, width in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.head = nn.Conv2d(widths[0], len(CLASSES), 1)

    def forward(self, photos: Tensor) -> Tensor:
        """``(B, 3, H, W)`` RGB in -1..1, sides divisible by 32 -> logits ``(B, 19, H, W)``."""
        return F.interpolate(self.coarse(photos), size=photos.shape[-2:], mode="bilinear", align_corners=False)

    def coarse(self, photos: Tensor) -> Tensor:
        """Return the logits at half of the photos' resolution ``(B, 19, H / 2, W / 2)``."""
        x = self.stem(photos)
        levels = [x]
        for down in self.down:
            x = down(x)
            levels.append(x)
        x = x + self.context(x.mean(dim=(2, 3)))[:, :, None, None]
        for up, skip in zip(self.up, levels[-2::-1], strict=True):
            _, norm, relu = up.children()
            x = relu(norm(_upsampled_conv(up.get_parameter("0.weight"), x, skip)))
        logits: Tensor = self.head(x)
        return logits


def _upsampled_conv(weight: Tensor, x: Tensor, skip: Tensor) -> Tensor:
    """Convolve the channels of ``x`` ``(B, C, H, W)``, upsampled to twice its size (nearest), and of ``skip``.

    Each of the four positions within an upsampled pixel sees only 2 x 2 pixels of ``x``. Four kernels of that size,
    sums of rows and columns of the 3 x 3 kernel, take less than half of the multiplications.

    Args:
        weight: ``(O, C + D, 3, 3)``.
        x: ``(B, C, H, W)``.
        skip: ``(B, D, 2 H, 2 W)``.
    """
    height, width = x.shape[2:]
    # Along an axis, an even position sees the previous and its own pixel, an odd one its own and the next.
    pairs = weight.new_tensor([[[1, 0, 0], [0, 1, 1]], [[1, 1, 0], [0, 0, 1]]])
    kernels = torch.einsum("pyi,qxj,ocij->pqocyx", pairs, pairs, weight[:, : x.shape[1]])
    parts = F.conv2d(x, kernels.flatten(0, 2).contiguous(memory_format=torch.channels_last), padding=1)
    result = F.conv2d(skip, weight[:, x.shape[1] :].contiguous(memory_format=torch.channels_last), padding=1)
    for place, part in enumerate(parts.chunk(4, dim=1)):
        down, across = divmod(place, 2)
        result[:, :, down::2, across::2] += part[:, :, down : down + height, across : across + width]
    return result


class _Block(nn.Sequential):
    def __init__(self, channels: int, width: int, *, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        )


class BiSeNet(nn.Module):
    """Bilateral segmentation network with a ResNet-18 context path; 13.3 M parameters, 191 tensors.

    Key names and shapes are those of the public face-parsing weights (1/8-scale features of the ResNet
    replace the spatial path). Input: RGB, 512 x 512, normalised by ImageNet's mean and deviation.
    """

    size = 512

    def __init__(self) -> None:
        super().__init__()
        self.cp = _ContextPath()
        self.ffm = _FeatureFusion(256, 256)
        self.conv_out = _Output(256, 256)
        self.conv_out16 = _Output(128, 64)
        self.conv_out32 = _Output(128, 64)

    def forward(self, photos: Tensor) -> Tensor:
        """``(B, 3, H, W)`` RGB in -1..1 -> logits ``(B, 19, H, W)``."""
        mean = photos.new_tensor([0.485, 0.456, 0.406])[:, None, None]
        deviation = photos.new_tensor([0.229, 0.224, 0.225])[:, None, None]
        near, context = self.cp(((photos + 1) / 2 - mean) / deviation)
        logits = self.conv_out(self.ffm(near, context))
        return F.interpolate(logits, size=photos.shape[-2:], mode="bilinear", align_corners=True)


class _ConvNorm(nn.Module):
    def __init__(self, channels: int, width: int, kernel: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, width, kernel, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)))


class _AttentionRefinement(nn.Module):
    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.conv = _ConvNorm(channels, width)
        self.conv_atten = nn.Conv2d(width, width, 1, bias=False)
        self.bn_atten = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        features = self.conv(x)
        attention = self.bn_atten(self.conv_atten(features.mean(dim=(2, 3), keepdim=True)))
        refined: Tensor = features * torch.sigmoid(attention)
        return refined


class _ContextPath(nn.Module):
    def __init__(self) -> None:
        from torchvision.models import resnet18  # imported late: the embedded parser does not need torchvision

        super().__init__()
        self.resnet = resnet18()
        self.resnet.fc = nn.Identity()
        self.arm16 = _AttentionRefinement(256, 128)
        self.arm32 = _AttentionRefinement(512, 128)
        self.conv_head32 = _ConvNorm(128, 128)
        self.conv_head16 = _ConvNorm(128, 128)
        self.conv_avg = _ConvNorm(512, 128, kernel=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        net = self.resnet
        at8 = net.layer2(net.layer1(net.maxpool(net.relu(net.bn1(net.conv1(x))))))
        at16 = net.layer3(at8)
        at32 = net.layer4(at16)
        everywhere = self.conv_avg(at32.mean(dim=(2, 3), keepdim=True))
        coarse = self.arm32(at32) + everywhere
        coarse = self.conv_head32(F.interpolate(coarse, size=at16.shape[-2:], mode="nearest"))
        middle = self.arm16(at16) + coarse
        middle = self.conv_head16(F.interpolate(middle, size=at8.shape[-2:], mode="nearest"))
        return at8, middle


class _FeatureFusion(nn.Module):
    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.convblk = _ConvNorm(channels, width, kernel=1)
        self.conv1 = nn.Conv2d(width, width // 4, 1, bias=False)
        self.conv2 = nn.Conv2d(width // 4, width, 1, bias=False)

    def forward(self, near: Tensor, context: Tensor) -> Tensor:
        features = self.convblk(torch.cat([near, context], dim=1))
        attention = self.conv2(F.relu(self.conv1(features.mean(dim=(2, 3), keepdim=True))))
        fused: Tensor = features * torch.sigmoid(attention) + features
        return fused


class _Output(nn.Module):
    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.conv = _ConvNorm(channels, width)
        self.conv_out = nn.Conv2d(width, len(CLASSES), 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.conv_out(self.conv(x))
        return logits
